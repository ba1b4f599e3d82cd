// The page of the gateway in a real browser: clicks, a keyboard, a phone, the dark, and nothing from elsewhere.
// node page.mjs ADDRESS KEY MODULES CHROMIUM PICTURES
import { createRequire } from "node:module";
import { join } from "node:path";

const [address, key, modules, chromium, pictures] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(join(modules, "x.js")).resolve("puppeteer-core"));
const home = `http://${address}/dashboard`;

function check(what, holds, detail = "") {
    if (!holds) {
        console.error(`failed ${what} ${detail}`);
        process.exitCode = 1;
        throw new Error(what);
    }
    console.log(`ok ${what}`);
}

const browser = await puppeteer.launch({
    executablePath: chromium,
    headless: true,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--force-device-scale-factor=1"],
});
try {
    const page = await browser.newPage();
    const [said, elsewhere, failed] = [[], [], []];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    page.on("request", (request) => {
        if (new URL(request.url()).host !== address) elsewhere.push(request.url());
    });
    page.on("requestfailed", (request) => failed.push(request.url()));
    const text = () => page.evaluate(() => document.body.innerText);
    const follow = (action) => Promise.all([page.waitForNavigation(), action()]);
    const press = (selector) => follow(() => page.click(selector));
    const picture = (name) => page.screenshot({ path: join(pictures, `${name}.png`) });
    const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);

    await page.setViewport({ width: 1100, height: 800 });
    await page.goto(`${home}/login`);
    await page.type("input[name=key]", "ch-admin-wrong");
    await press("main button");
    check("a wrong key opens nothing", (await text()).includes("not the admin's key"), await text());
    said.length = 0; // The browser reports the status 401.
    await page.goto(`${home}/login`);
    await page.type("input[name=key]", key);
    await press("main button");
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
    check("training shows what models were asked", (await text()).includes("Models since the start"));
    await picture("training");
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

    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    const dark = await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
    check("it follows the dark", dark.includes("dark"), dark);
    await picture("playbook-dark");
    await page.setViewport({ width: 390, height: 844, isMobile: true });
    for (const place of ["", "/playbook"]) {
        await page.goto(home + place);
        check(`a phone shows it without scrolling sideways: ${place || "/"}`, await fits());
    }
    await picture("playbook-phone");

    await page.goto(`${home}/playbook`);
    await press("main table a[href*='/versions/1']");
    check("it asks first", (await text()).includes("Serve version 1 again?"));
    await press("main button");
    check("the older version is served", (await text()).includes("rolled back to version 1"));
    await page.setJavaScriptEnabled(false);
    await page.goto(`${home}/playbook`);
    check("it is read without scripts", (await page.content()).includes("rolled back to version 1"));

    check("the console is empty", said.length === 0, said.join("; "));
    check("nothing is loaded from elsewhere", elsewhere.length === 0, elsewhere.join(" "));
    check("everything is loaded", failed.length === 0, failed.join(" "));
} finally {
    await browser.close();
}
