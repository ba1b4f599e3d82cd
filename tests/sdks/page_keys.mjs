// The page by keys alone: no pointer is used. Whatever has the focus shows it.
import { browse, check, home, settings } from "./browser.mjs";

/** Most presses of Tab to something on a page. */
const TABS = 60;

await browse(async ({ page, follow, text, value }) => {
    const focused = (selector) => page.evaluate((selector) => document.activeElement.matches(selector), selector);
    /** Goes to something by Tab alone, and checks that its focus can be seen. */
    async function tabTo(selector) {
        const outline = () =>
            page.$eval(selector, (node) => {
                const { outlineStyle, outlineWidth } = getComputedStyle(node);
                return outlineStyle === "none" ? 0 : parseFloat(outlineWidth);
            });
        const before = await outline();
        let tabs = 0;
        do await page.keyboard.press("Tab");
        while (!(await focused(selector)) && ++tabs < TABS);
        check(`Tab leads to ${selector}`, await focused(selector));
        check(`its focus is seen: ${selector}`, before === 0 && (await outline()) >= 2, `${before} ${await outline()}`);
    }
    const key = (name) => follow(() => page.keyboard.press(name));

    await page.goto(`${home}/login`);
    // A browser obeys `autofocus` when it first paints, which may be after the load.
    const hasFocus = page.waitForFunction(() => document.activeElement.matches("input[name=key]"));
    check("the field of the key has the focus", await hasFocus.then(() => true, () => false));
    await page.keyboard.type(settings.key);
    await key("Enter");
    check("Enter logs in", (await text()).includes("Ended"));

    await tabTo("section[data-key=ended] tbody a");
    await key("Enter");
    check("Enter opens a session", (await text()).includes("How far is it?"));
    await tabTo("details[data-key=guidance] summary");
    await page.keyboard.press("Space");
    check("Space opens its guidance", (await text()).includes("Be brief."));
    await tabTo("#turn-0 button[value=up]");
    await key("Space");
    check("Space gives a thumb", (await value("#turn-0 button[value=up]", "aria-pressed")) === "true");
    await tabTo("#turn-0 button[value=down]");
    await key("Enter");
    check("Enter gives the other one", (await value("#turn-0 button[value=down]", "aria-pressed")) === "true");
    await tabTo("#turn-0 input[name=correction]");
    await page.keyboard.type("Say it in metres.");
    await tabTo("#turn-0 form[data-key=correction] button");
    await key("Space");
    check("a correction is given", (await value("section[data-key=verdicts]", "innerText")).includes("Say it in metres."));

    await tabTo("nav a[href$='/playbook']");
    await key("Enter");
    const again = "section[data-key=versions] a[href$='/versions/1']";
    await tabTo(again);
    await key("Enter");
    check("Enter asks before a rollback", (await text()).includes("Serve version 1 again?"));
    await tabTo("main a");
    await key("Enter");
    check("it can be left", (await text()).includes("Playbook live, version 2") && !(await text()).includes("rolled back"));
    await tabTo(again);
    await key("Enter");
    await tabTo("main form button");
    await key("Space");
    check("Space serves the older version", (await text()).includes("rolled back to version 1"));

    await tabTo("#pause");
    await page.keyboard.press("Space");
    check("Space pauses the page", (await value("#pause", "textContent")) === "Continue");
    await tabTo("header form button");
    await key("Enter");
    check("Enter logs out", page.url() === `${home}/login`, page.url());
});
