// Lines for people who debug a plugin.

import log from "clawhost:log/log@0.1.0";

/** For the author. */
export const debug = (text) => log.write("debug", text);
/** Worth knowing. */
export const info = (text) => log.write("info", text);
/** Something looks wrong. */
export const warn = (text) => log.write("warn", text);
