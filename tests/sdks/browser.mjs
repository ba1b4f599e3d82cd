// What the scripts about the page share: a browser, what it reports, and checks.
// node SCRIPT '{"address": ..., "key": ..., "modules": ..., "chromium": ..., "pictures": ..., "routes": [...]}'
import { EventEmitter, once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";

export const settings = JSON.parse(process.argv[2]);
const { address, key, modules, chromium, pictures } = settings;
const { default: puppeteer } = await import(createRequire(join(modules, "x.js")).resolve("puppeteer-core"));

export const home = `http://${address}/dashboard`;
export const policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/** How long a report that is expected may take. */
const PATIENCE_MS = 30_000;

/** What a browser reports of an answer that is an error, at a place of the page. */
export const status = (code, place) =>
    new RegExp(`^console: Failed to load resource: .* status of ${code} .* ${home}${place}$`);

/** A request of a client of the gateway. */
export async function send(path, user, body = {}) {
    const headers = { "content-type": "application/json", "x-clawhost-user": user, "x-clawhost-session": user };
    const answer = await fetch(`http://${address}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
}

/** Asks the model in a session of a user. The stub does what it is told. */
export const ask = (user, ...said) => {
    const message = (content, at) => ({ role: at % 2 ? "assistant" : "user", content });
    return send("/v1/chat/completions", user, { model: "m", messages: said.map(message) });
};

export function check(what, holds, detail = "") {
    if (!holds) {
        console.error(`failed ${what} ${detail}`);
        process.exitCode = 1;
        throw new Error(what);
    }
    console.log(`ok ${what}`);
}

/** A tab, and everything that the browser reports of it: lines of the console, errors of scripts, breaches of the policy, failed loads. */
async function open(browser) {
    const page = await browser.newPage();
    const [reports, elsewhere, policies, arrivals] = [[], [], new Set(), new EventEmitter()];
    const report = (text) => {
        reports.push(text);
        arrivals.emit("report");
    };
    page.on("console", (line) => report(`console: ${line.text()} ${line.location().url ?? ""}`));
    page.on("pageerror", (error) => report(`error: ${error}`));
    page.on("requestfailed", (request) => {
        const why = request.failure().errorText;
        // A page that is left ends its stream of events, and what it is fetching.
        const isLeft = why === "net::ERR_ABORTED" && ["eventsource", "fetch"].includes(request.resourceType());
        if (!isLeft) report(`failed: ${request.url()} ${why}`);
    });
    page.on("request", (request) => {
        if (new URL(request.url()).host !== address) elsewhere.push(request.url());
    });
    page.on("response", (answer) => policies.add(answer.headers()["content-security-policy"] ?? answer.url()));

    const follow = (action) => Promise.all([page.waitForNavigation(), action()]);
    const press = (selector) => follow(() => page.click(selector));
    return {
        page,
        follow,
        press,
        text: () => page.evaluate(() => document.body.innerText),
        value: (selector, name) => page.$eval(selector, (node, name) => node[name] ?? node.getAttribute(name), name),
        picture: (name) => page.screenshot({ path: join(pictures, `${name}.png`) }),
        async logIn() {
            await page.goto(`${home}/login`);
            await page.type("input[name=key]", key);
            await press("main button");
        },
        /** Waits for the reports that are expected, checks that there are no others, and forgets them. Each is named with its reason. */
        async reported(when, expected = {}) {
            const patterns = Object.values(expected);
            const arrives = () => once(arrivals, "report", { signal: AbortSignal.timeout(PATIENCE_MS) });
            for (const pattern of patterns) while (!reports.some((text) => pattern.test(text))) await arrives();
            // What was reported before this answer is here.
            await page.evaluate(() => document.title);
            const others = reports.filter((text) => !patterns.some((pattern) => pattern.test(text)));
            check(`nothing else is reported ${when}`, others.length === 0, others.join("; "));
            reports.length = 0;
        },
        loadsOwnPartsAlone() {
            check("every answer has the policy", policies.size === 1 && policies.has(policy), [...policies].join("; "));
            check("nothing is loaded from elsewhere", elsewhere.length === 0, elsewhere.join(" "));
        },
    };
}

/** Runs a script in a browser. In the end nothing is reported that it has not named. */
export async function browse(script) {
    const browser = await puppeteer.launch({
        executablePath: chromium,
        headless: true,
        args: ["--no-sandbox", "--disable-dev-shm-usage", "--force-device-scale-factor=1"],
    });
    try {
        const tab = await open(browser);
        await script({ ...tab, browser });
        await tab.reported("in the end");
        tab.loadsOwnPartsAlone();
    } finally {
        await browser.close();
    }
}
