// The page of the gateway in a real browser: clicks, and sessions as they happen.
import { ask, browse, check, home, policy, send, status } from "./browser.mjs";

await browse(async ({ browser, page, text, press, picture, logIn, reported }) => {
    await page.setViewport({ width: 1100, height: 800 });
    await page.goto(`${home}/login`);
    await page.type("input[name=key]", "ch-admin-wrong");
    await press("main button");
    check("a wrong key opens nothing", (await text()).includes("not the admin's key"), await text());
    await reported("of a wrong key", { "it is refused": status(401, "/login") });
    await logIn();
    check("the key opens the sessions", (await text()).includes("In progress"));
    await page.goto(home);
    const painted = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    const paint = await painted.jsonValue();
    console.log(`first paint ${Math.round(paint)} ms`);

    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => document.activeElement.textContent);
    check("the first key press leads to the content", focus.includes("Skip"), focus);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#main");
    check("the skip link works", page.url().endsWith("#main"));

    await press("main table a");
    check("a session is shown with its turns", (await text()).includes("How far is it?"));
    await press("button[value=up]");
    check("a thumb is a verdict", (await text()).includes("feedback"));
    await page.type("input[name=correction]", "Use metric units.");
    await press("main section form:nth-of-type(2) button");
    check("a correction is taken", (await text()).includes("Use metric units."));
    await picture("session");

    await press("nav a:nth-of-type(3)");
    check("training is shown, without weights", (await text()).includes("No weights learn here."));
    check("it has the data pool", (await text()).includes("It is empty."));
    await press("nav a:nth-of-type(4)");
    check("cost is shown by model", (await text()).includes("Models since the start"));
    await press("nav a:nth-of-type(2)");
    let playbook = await text();
    for (let look = 0; look < 500 && !playbook.includes("sessions still needed"); look += 1) {
        await page.goto(`${home}/playbook`);
        playbook = await text();
    }
    check("a lesson is on trial", playbook.includes("Use metric units.") && playbook.includes("sessions still needed"), playbook);
    check("entries have their tokens", playbook.includes("Be kind."));
    await picture("playbook");
    await page.click("main table details summary");
    await page.waitForFunction(() => document.body.innerText.includes("Be brief."));
    check("a version shows its changes", (await text()).includes("Be brief."));

    const scheme = (value) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
    await scheme("dark");
    await page.goto(`${home}/playbook`);
    await picture("playbook-dark");
    await scheme("light");
    await page.setViewport({ width: 390, height: 844, isMobile: true });
    await page.goto(`${home}/playbook`);
    await picture("playbook-phone");

    await page.goto(`${home}/playbook`);
    await press("main table a[href*='/versions/1']");
    check("it asks first", (await text()).includes("Serve version 1 again?"));
    await press("main button");
    check("the older version is served", (await text()).includes("rolled back to version 1"));

    // Sessions as they happen. Pages are fetched when there is an event alone, and not because time passes.
    await page.evaluateOnNewDocument(() => {
        const [begin, long] = [window.setTimeout, 20_000];
        window.setTimeout = (what, wait) => (wait < long - 1_000 ? begin(what, wait) : 0);
        window.streams = [];
        const Stream = window.EventSource;
        window.EventSource = function (place) {
            const stream = new Stream(place);
            window.streams.push(stream);
            return stream;
        };
    });
    const isSilent = () => page.waitForFunction(() => window.streams.every((stream) => stream.readyState === 2));
    await page.setViewport({ width: 1100, height: 800 });
    const live = (what) => page.waitForFunction((what) => document.getElementById("live").textContent.includes(what), {}, what);
    const appears = (what) => page.waitForFunction((what) => document.body.innerText.includes(what), {}, what);
    const mark = () => page.evaluate(() => (window.isSame = true));
    const isSame = () => page.evaluate(() => window.isSame === true);
    const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.value);
    await page.goto(home);
    await live("Live");
    await mark();
    await page.focus("section[data-key=ended] tbody a");
    const link = await focused();
    await ask("dora", "say first");
    await appears("dora");
    check("a session that begins appears without a reload", await isSame());
    check("focus stays where it was", (await focused()) === link, `${link}: ${await focused()}`);
    await page.focus("section[data-key=open] tbody a");
    await ask("eve", "say first");
    await appears("eve");
    check("a row that moves keeps the focus", (await focused()) === "dora", await focused());
    await send("/s/dora/end", "dora");
    await page.waitForFunction(() => document.querySelector("section[data-key=ended] tbody")?.innerText.includes("dora"));
    check("a session that ends is among the ended ones, with the focus", (await isSame()) && (await focused()) === "dora", await focused());

    await press("section[data-key=open] tbody a");
    await live("Live");
    await mark();
    await page.type("#turn-0 input[name=correction]", "Say it in");
    const caret = () => page.evaluate(() => document.activeElement.selectionStart);
    const answer = await ask("eve", "say first", "first", "say second");
    await appears("Turn 2");
    check("a turn appears while somebody writes", (await isSame()) && (await caret()) === 9, `${await caret()}`);
    await page.keyboard.type(" metres.");
    check("what is written stays, and goes on", (await focused()) === "Say it in metres.", await focused());
    await send("/v1/feedback", "eve", { response_id: answer.id, thumb: "down" });
    await appears("pending until the session ends");
    await send("/s/eve/end", "eve");
    await appears("decided");
    check("a verdict that is pending is decided without a reload", await isSame());
    const kept = await page.$eval("#turn-0 input[name=correction]", (field) => field.value);
    check("unsent text outlives the end of its session", kept === "Say it in metres.", kept);
    const shrink = (request) => {
        if (request.resourceType() !== "fetch") return request.continue();
        const body = `<main id="main" data-from="${"0".repeat(16)}-0"><h1>eve has gone</h1></main>`;
        return request.respond({ contentType: "text/html", headers: { "content-security-policy": policy }, body });
    };
    await page.setRequestInterception(true);
    page.on("request", shrink);
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await appears("eve has gone");
    check("a form that somebody writes in is not taken away", await page.$eval("#turn-0 input[name=correction]", (field) => field.value === "Say it in metres."));
    check("others are", (await page.$("#turn-1")) === null);
    page.off("request", shrink);
    await page.setRequestInterception(false);
    await press("#turn-0 form[data-key=correction] button");
    check("it is sent as it was written", (await text()).includes("Say it in metres."));

    await page.goto(`${home}/playbook`);
    await live("Live");
    await page.click("section[data-key=versions] details summary");
    await mark();
    const from = await page.$eval("#main", (main) => main.dataset.from);
    await ask("fay", "say first");
    await page.waitForFunction((from) => document.getElementById("main").dataset.from !== from, {}, from);
    check("details stay open", (await isSame()) && (await page.$eval("section[data-key=versions] details", (details) => details.open)));

    // A reader may pause, and a page that nobody sees asks for nothing.
    await page.goto(home);
    await live("Live");
    await page.click("#pause");
    await isSilent();
    await live("Paused");
    check("a page that is paused has no stream", (await page.$eval("#pause", (button) => button.textContent)) === "Continue");
    await ask("gil", "say first");
    await page.click("#pause");
    await appears("gil");
    check("it catches up with what it missed", true);
    await live("Live");
    const hide = (hidden) =>
        page.evaluate((hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }, hidden);
    await hide(true);
    await isSilent();
    await ask("hal", "say first");
    await hide(false);
    await appears("hal");
    check("a page that nobody sees has no stream, and is fresh when it is seen again", true);

    await live("Live");
    await reported("before the connection is lost");
    const lose = (request) => request.abort("connectionrefused");
    await page.setRequestInterception(true);
    page.on("request", lose);
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await live("Not connected. The page is of");
    check("a lost connection is said, and the page stays", (await text()).includes("hal"));
    page.off("request", lose);
    await page.setRequestInterception(false);
    await live("Live");
    check("it is live again by itself", true);
    await reported("of a lost connection", {
        "the page is not fetched": /^failed: .*\/dashboard net::ERR_CONNECTION_REFUSED$/,
        "the browser says so": /^console: Failed to load resource: net::ERR_CONNECTION_REFUSED /,
    });

    const other = await browser.newPage();
    await other.goto(home);
    await Promise.all([other.waitForNavigation(), other.click("header form button")]);
    await other.close();
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await live("You are logged out");
    check("the end of a login is said, and what was there stays", (await text()).includes("hal"));
    await reported("of the end of a login", { "the page is refused": status(401, "") });
});
