// Weights that learn, on the page of a gateway whose local model has taken two steps. A session waits for the third.
import { browse, check, home } from "./browser.mjs";

/** How often a page is loaded again until it shows what happens by itself. */
const LOADS = 500;

await browse(async ({ page, press, text, logIn, picture }) => {
    await page.setViewport({ width: 1100, height: 800 });
    await logIn();
    const training = `${home}/training`;
    const loads = async (holds) => {
        for (let load = 0; load < LOADS; load += 1) {
            await page.goto(training);
            if (holds(await text())) return;
        }
    };
    const facts = () => page.$$eval(".facts div", (all) => Object.fromEntries(all.map((one) => [...one.children].map((part) => part.innerText.trim()))));
    const rows = () =>
        page.$$eval("main table:first-of-type tbody tr", (all) => all.map((row) => [...row.children].map((cell) => cell.innerText)));
    const row = async (number) => (await rows()).find(([version]) => version === `${number}`) ?? [];
    /** Whether a version says that it serves, and the other one that it can. */
    const isServing = async (one, other) => (await row(one))[1].endsWith(" serves") && (await row(other))[1].endsWith(" serve again");
    const fact = async (name, shown) => check(`${name} is ${shown}`, (await facts())[name]?.startsWith(shown), JSON.stringify(await facts()));

    await loads((shown) => shown.includes("1 of 64"));
    await fact("model", "tutor");
    await fact("learns from", "rewards and corrections");
    await fact("serves", "version 2");
    await fact("sessions for the next step", "1 of 64");
    await fact("now", "waits");
    for (const number of [1, 2]) {
        const [, , sessions, measured] = await row(number);
        check(`version ${number} names its sessions`, sessions === "4", JSON.stringify(await rows()));
        const rate = Number(/tokens_per_second (\S+)/.exec(measured)?.[1]);
        check(`version ${number} has its tokens per second`, rate > 0, measured);
    }
    check("the newest version serves", await isServing(2, 1), JSON.stringify(await rows()));
    await picture("training");

    const again = "main a[href$='/training/versions/1']";
    await press(again);
    check("a rollback of weights asks first", (await text()).includes("Serve version 1 again?") && (await text()).includes("of tutor"), await text());
    await press("main a");
    await fact("serves", "version 2");
    await press(again);
    await press("main form button");
    await fact("serves", "version 1");
    check("the older version serves", await isServing(1, 2), JSON.stringify(await rows()));
    await press("main a[href$='/training/versions/0']");
    check("the configured weights are asked for, too", (await text()).includes("Serve the configured weights again?"));
    await press("main a");
    await fact("serves", "version 1");
});
