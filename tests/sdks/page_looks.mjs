// Every page on a phone, in the dark and in the light: nothing scrolls sideways, every text differs enough from what is behind it, and no key is shown.
import { ask, browse, check, home, send, settings, status } from "./browser.mjs";

/** Widths of phones, and of a window, in CSS pixels. */
const [PHONES, WINDOW] = [[360, 390], 1100];
/** Least contrast of text, as of WCAG 2 (AA). */
const LEAST_CONTRAST = 4.5;
/** A name and a text that no line can break at a space. */
const [NAME, WORD] = ["n".repeat(120), "w".repeat(400)];
/** A key that a client says. */
const KEY = "sk-proj-AbCdEfGh1234567890said";

/** The colours of all texts that are seen, each with what is behind it. It runs in the page. */
function colours() {
    const parts = (colour) => {
        const numbers = /^rgba?\(([^)]+)\)$/.exec(colour)?.[1].split(/[ ,/]+/).map(Number);
        if (!numbers) throw new Error(`a colour of another kind: ${colour}`);
        const [red, green, blue, alpha = 1] = numbers;
        return { rgb: [red, green, blue], alpha };
    };
    const over = ({ rgb, alpha }, below) => rgb.map((part, at) => part * alpha + below[at] * (1 - alpha));
    const luminance = (rgb) => {
        const linear = rgb.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const probe = document.body.appendChild(document.createElement("div"));
    probe.style.color = "Canvas";
    const canvas = parts(getComputedStyle(probe).color).rgb;
    probe.remove();
    /** Of an element: its ancestors from the outside in, with their opacity, and what they paint. */
    const painted = (element) => {
        const chain = [];
        for (let node = element; node; node = node.parentElement) chain.unshift(getComputedStyle(node));
        let [below, opacity] = [canvas, 1];
        for (const style of chain) {
            opacity *= Number(style.opacity);
            const { rgb, alpha } = parts(style.backgroundColor);
            below = over({ rgb, alpha: alpha * opacity }, below);
        }
        const style = chain.at(-1);
        const { rgb, alpha } = parts(element.closest("svg") ? style.fill : style.color);
        return [over({ rgb, alpha: alpha * opacity }, below), below];
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = [];
    while (texts.nextNode()) {
        const { nodeValue, parentElement } = texts.currentNode;
        if (nodeValue.trim() && parentElement.checkVisibility()) seen.push([nodeValue.trim(), parentElement]);
    }
    for (const field of document.querySelectorAll("input:not([type=hidden])")) seen.push([field.name, field]);
    return seen.map(([text, element]) => {
        const [front, behind] = painted(element).map(luminance);
        const contrast = (Math.max(front, behind) + 0.05) / (Math.min(front, behind) + 0.05);
        return { text: text.slice(0, 40), tag: element.tagName, front, behind, contrast };
    });
}

await browse(async ({ page, text, value, logIn, reported }) => {
    await ask(NAME, `say ${WORD} ${KEY}`);
    await ask(`${NAME}-open`, `say ${WORD}`);
    await send("/v1/feedback", NAME, { session: NAME, thumb: "down", text: `not ${KEY}`, correction: `Use ${KEY}.` });
    await send(`/s/${NAME}/end`, NAME);
    await logIn();
    const link = (section) => value(`section[data-key=${section}] tbody a`, "href");
    const [ended, open] = [await link("ended"), await link("open")];
    await page.goto(ended);
    check("the session of the long name is shown", (await text()).includes(WORD) && (await text()).includes("[redacted:key]"), await text());
    const places = {
        "/dashboard": [home, `${home}?page=1`],
        "/dashboard/login": [`${home}/login`],
        "/dashboard/training": [`${home}/training`],
        "/dashboard/training/versions/{number}": [`${home}/training/versions/1`],
        "/dashboard/cost": [`${home}/cost`],
        "/dashboard/playbook": [`${home}/playbook`],
        "/dashboard/playbook/versions/{number}": [`${home}/playbook/versions/1`],
        "/dashboard/sessions/{run}/{episode}": [ended, open],
        "no such session": [`${home}/sessions/run-1/ep-1`],
    };
    const missing = settings.routes.filter((route) => !places[route]);
    check("every page of the router is looked at", settings.routes.length > 7 && missing.length === 0, `${missing} of ${settings.routes}`);
    for (const scheme of ["dark", "light"]) {
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        for (const [route, addresses] of Object.entries(places)) {
            for (const [at, place] of addresses.entries()) {
                const name = `${scheme}, ${route}${at ? ` (${at + 1})` : ""}`;
                for (const width of [WINDOW, ...PHONES]) {
                    await page.setViewport({ width, height: 844, isMobile: width !== WINDOW });
                    const answer = await page.goto(place);
                    check(`it is the page: ${width} px, ${name}`, answer.status() === (route === "no such session" ? 404 : 200), `${answer.status()}`);
                    // Not `innerWidth`: a phone zooms out until everything is on the screen.
                    const shown = await page.evaluate(() => document.documentElement.scrollWidth);
                    check(`it does not scroll sideways: ${width} px, ${name}`, shown <= width, `${shown}`);
                }
                await page.$$eval("details", (all) => all.forEach((details) => (details.open = true)));
                const shown = await page.content();
                const keys = [KEY, settings.key, settings.keyOfUpstream].filter((key) => shown.includes(key));
                check(`it shows no key: ${name}`, keys.length === 0, keys.join(" "));
                const seen = await page.evaluate(colours);
                check(`it has texts: ${name}`, seen.length > 3);
                const pale = seen.filter(({ contrast }) => contrast < LEAST_CONTRAST);
                check(`every text has contrast: ${name}`, pale.length === 0, JSON.stringify(pale));
                const { front: ink, behind: paper } = seen.find(({ tag }) => tag === "H1");
                const holds = scheme === "dark" ? paper < 0.05 && ink > 0.5 : paper > 0.8 && ink < 0.1;
                check(`its colours are those of the scheme: ${name}`, holds, `${ink} on ${paper}`);
            }
        }
    }
    await reported("of pages", { "the page of an unknown session": status(404, "/sessions/run-1/ep-1") });
});
