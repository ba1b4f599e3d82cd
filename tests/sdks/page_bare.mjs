// The page without scripts: it is complete, and its forms work.
import { ask, browse, check, home, send } from "./browser.mjs";

await browse(async ({ page, press, text, value, logIn }) => {
    await ask("dora", "say first");
    await page.setJavaScriptEnabled(false);
    await logIn();
    const list = await text();
    check("the list is complete", list.includes("dora") && list.includes("ada") && list.includes("Load again"), list);
    check("nothing pretends to be live", (await value("#live", "textContent")) === "" && !(await page.$("#pause:not([hidden])")));

    await press("section[data-key=ended] tbody a");
    const session = await text();
    for (const part of ["How far is it?", "Turn 1", "Verdicts", "tokens written", "decided"]) {
        check(`a session is readable: ${part}`, session.includes(part), session);
    }
    await page.click("details[data-key=guidance] summary");
    check("its guidance opens", (await text()).includes("Be brief."));
    await press("#turn-0 button[value=up]");
    check("a thumb is given", (await value("#turn-0 button[value=up]", "aria-pressed")) === "true");
    check("it is a verdict", (await value("section[data-key=verdicts]", "innerText")).includes("revised"));
    await page.type("#turn-0 input[name=correction]", "Say it in metres.");
    await press("#turn-0 form[data-key=correction] button");
    check("a correction is given", (await value("section[data-key=verdicts]", "innerText")).includes("Say it in metres."));

    await page.goto(home);
    await press("section[data-key=open] tbody a");
    await press("#turn-0 button[value=down]");
    check("feedback of a session in progress waits", (await text()).includes("pending until the session ends"));
    await send("/s/dora/end", "dora");
    await page.reload();
    check("it counts when the session has ended", (await value("section[data-key=verdicts]", "innerText")).includes("decided"));

    await press("nav a[href$='/playbook']");
    check("the playbook is complete", (await text()).includes("Be kind.") && (await text()).includes("Playbook live, version 2"));
    await page.click("section[data-key=versions] details summary");
    check("a version shows its changes", (await text()).includes("Be brief."));
    const again = "section[data-key=versions] a[href$='/versions/1']";
    await press(again);
    check("a rollback asks first", (await text()).includes("Serve version 1 again?"));
    await press("main a");
    check("it can be left", (await text()).includes("Playbook live, version 2") && !(await text()).includes("rolled back"));
    await press(again);
    await press("main form button");
    check("the older version is served", (await text()).includes("Playbook live, version 3") && (await text()).includes("rolled back to version 1"));
    await press("nav a[href$='/training']");
    check("training is complete", (await text()).includes("No weights learn here."));
    await press("nav a[href$='/cost']");
    check("cost is complete", (await text()).includes("Models since the start"));
    await press("header form button");
    check("a login ends", page.url() === `${home}/login`, page.url());
});
