// Keeps a page of the gateway fresh. The event stream says that something happened; then the same page is fetched, and what differs is changed
// in place. Elements stay, and with them focus, open details, what is selected or scrolled, and unsent text. Without this script every page is complete.
"use strict";
(() => {
    // Least time between two updates: a busy gateway has events all the time.
    const LEAST_MS = 2000;
    // One part of so many of the time is spent on updates at most: a page that costs more is fetched less often.
    const SHARE = 5;
    // Time after which a page is fetched without an event: trials and other programs have none.
    const MOST_MS = 20000;
    // How long an answer may take.
    const PATIENCE_MS = 15000;
    // Waiting time after a failure. It doubles with each one, up to the last.
    const RETRY_MS = 1000;
    const LAST_RETRY_MS = 60000;
    // What changes a page.
    const EVENTS = [
        "exchange_recorded",
        "exchange_missed",
        "session_opened",
        "session_ended",
        "episode_made",
        "feedback_given",
        "models_changed",
        "training_changed",
        "lost",
    ];
    // Answers after which there is nothing to wait for.
    const ENDS = {
        401: "You are logged out. Load the page again to log in.",
        403: "The gateway does not show this page any more.",
        404: "This is not here any more. The page shows what was there.",
    };

    const main = document.getElementById("main");
    const line = document.getElementById("live");
    const button = document.getElementById("pause");

    // An element with the same key is the same thing; others are the same by their place and kind.
    const key = (node) => node.dataset?.key;
    const isText = (node) => node.nodeType === Node.TEXT_NODE;
    // Space between elements is not compared: elements would move for it, and lose their focus.
    const isShown = (node) => !isText(node) || node.nodeValue.trim() !== "";
    const isAlike = (was, fresh) => was.nodeType === fresh.nodeType && was.nodeName === fresh.nodeName && !key(was);

    // Whether somebody is writing there, or has written what is not sent.
    const isWritten = (node) => {
        if (node.nodeType !== Node.ELEMENT_NODE) return false;
        const isChanged = (field) => field.type !== "hidden" && field.value !== field.defaultValue;
        const hasFocus = node.contains(document.activeElement) && document.activeElement.form;
        return Boolean(hasFocus) || [...node.querySelectorAll("input, textarea")].some(isChanged);
    };

    function change(was, fresh) {
        if (was.isEqualNode(fresh)) return;
        if (isText(was)) {
            was.nodeValue = fresh.nodeValue;
            return;
        }
        // Details stay as the reader left them.
        const stays = (name) => name === "open" && was.nodeName === "DETAILS";
        for (const name of was.getAttributeNames()) {
            if (!fresh.hasAttribute(name) && !stays(name)) was.removeAttribute(name);
        }
        for (const name of fresh.getAttributeNames()) {
            if (was.getAttribute(name) !== fresh.getAttribute(name)) was.setAttribute(name, fresh.getAttribute(name));
        }
        changeInside(was, fresh);
    }

    function changeInside(was, fresh) {
        const wanted = new Set([...fresh.children].map(key));
        const known = new Map();
        for (const node of [...was.children]) {
            if (!key(node)) continue;
            if (wanted.has(key(node))) known.set(key(node), node);
            else if (!isWritten(node)) node.remove();
        }
        // What somebody writes stays where it is, even if the page has nothing of it any more.
        const isLeft = (node) => key(node) && !wanted.has(key(node));
        const from = (node) => {
            let place = node;
            while (place && (!isShown(place) || isLeft(place))) place = place.nextSibling;
            return place;
        };
        let at = from(was.firstChild);
        for (const next of [...fresh.childNodes].filter(isShown)) {
            const found = key(next) ? known.get(key(next)) : at && isAlike(at, next) && at;
            if (!found) {
                was.insertBefore(document.importNode(next, true), at);
                continue;
            }
            if (found === at) at = from(at.nextSibling);
            else was.insertBefore(found, at);
            change(found, next);
        }
        while (at) {
            const behind = from(at.nextSibling);
            if (!isWritten(at)) at.remove();
            at = behind;
        }
    }

    function show(text) {
        const fresh = new DOMParser().parseFromString(text, "text/html");
        const next = fresh.getElementById("main");
        if (!next?.dataset.from) throw new Error("no page");
        const focused = document.activeElement;
        changeInside(main, next);
        main.dataset.from = next.dataset.from;
        document.title = fresh.title;
        if (focused === document.activeElement) return;
        // It was moved, or a link of the same thing stands elsewhere.
        const place = focused.getAttribute("href");
        const again = focused.isConnected ? focused : place && main.querySelector(`a[href="${CSS.escape(place)}"]`);
        again?.focus({ preventScroll: true });
    }

    let [stream, timer, due, running, again] = [null, 0, 0, false, false];
    let [notBefore, drops, failures, asOf] = [0, 0, 0, new Date()];
    let [isPaused, isLeaving, isOver] = [false, false, false];
    const isResting = () => isPaused || isLeaving || isOver || document.hidden;
    const after = (times) => Math.min(RETRY_MS * 2 ** Math.min(times - 1, 10), LAST_RETRY_MS);

    // A line is read aloud when it changes.
    function say(text) {
        if (line.textContent !== text) line.textContent = text;
    }

    // Updates after a time, or earlier if that is planned.
    function plan(wait) {
        if (isResting()) return;
        if (running) {
            again = again || wait === 0;
            return;
        }
        const now = performance.now();
        const when = Math.max(now + wait, notBefore);
        if (timer && due <= when) return;
        clearTimeout(timer);
        [timer, due] = [setTimeout(update, when - now), when];
    }

    // A page about one episode is not fetched for others.
    function concerns(event) {
        const about = main.dataset.about;
        return !about || event.type === "lost" || JSON.parse(event.data).episode === about;
    }

    function hangUp() {
        stream?.close();
        stream = null;
    }

    function listen() {
        if (stream || isResting()) return;
        stream = new EventSource(`/dashboard/events?from=${main.dataset.from}`);
        stream.onopen = () => {
            drops = 0;
            say("Live");
        };
        // It ended. Whether the gateway is away, the page tells.
        stream.onerror = () => {
            hangUp();
            drops += 1;
            plan(after(drops));
        };
        const heard = (event) => concerns(event) && plan(0);
        for (const name of EVENTS) stream.addEventListener(name, heard);
    }

    async function update() {
        timer = 0;
        if (isResting()) return;
        running = true;
        const began = performance.now();
        let status = null;
        try {
            const limit = AbortSignal.timeout(PATIENCE_MS);
            const answer = await fetch(location.href, { cache: "no-store", redirect: "error", signal: limit });
            status = answer.status;
            const text = await answer.text();
            if (answer.ok && !isResting()) show(text);
            if (answer.ok) [failures, asOf] = [0, new Date()];
        } catch {
            status = null;
        }
        running = false;
        const now = performance.now();
        notBefore = now + Math.max(LEAST_MS, (now - began) * SHARE);
        if (isResting()) return;
        if (status === 200) {
            say("Live");
            listen();
            plan(again ? 0 : MOST_MS);
        } else if (ENDS[status]) {
            isOver = true;
            hangUp();
            button.hidden = true;
            say(ENDS[status]);
        } else {
            failures += 1;
            hangUp();
            const why = status ? `The gateway answers with the status ${status}` : "Not connected";
            say(`${why}. The page is of ${asOf.toISOString().slice(11, 19)} UTC. It tries again.`);
            plan(after(failures));
        }
        again = false;
    }

    function rest() {
        hangUp();
        clearTimeout(timer);
        timer = 0;
    }

    button.hidden = false;
    button.addEventListener("click", () => {
        isPaused = !isPaused;
        button.textContent = isPaused ? "Continue" : "Pause";
        if (isPaused) {
            rest();
            say("Paused");
        } else plan(0);
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? rest() : plan(0)));
    window.addEventListener("online", () => plan(0));
    // A page that is left reports no lost connection.
    window.addEventListener("pagehide", () => {
        isLeaving = true;
        rest();
    });
    window.addEventListener("pageshow", (event) => {
        isLeaving = false;
        if (event.persisted) plan(0);
    });
    listen();
    plan(MOST_MS);
})();
