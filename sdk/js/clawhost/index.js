// The SDK for plugins in JavaScript: environments, rewards and reflectors for clawhost.
//
// `clawhost build` puts this package, and the interface that the host calls beside your `src/plugin.js`, and makes a
// component of all. The default export of `plugin.js` is your class.
//
// Rules of the sandbox:
//
// - `plugin.js` is evaluated once, while the component is built, and the result is frozen into it.
// - All randomness comes from the seed (`Random`). There is no clock, no console, no file and no network: what needs one ends the plugin.
// - `PluginError` is an answer of yours. Any other exception is a bug: it ends the plugin, and the log has its text.
// - A loop over characters costs thousands of times what it costs in compiled code: let built-in functions do it.

export { continueWith, done, Environment, MessageEnvironment, Opening, Step, stop } from "./environment.js";
export { Episode } from "./episode.js";
export { ModelError, PluginError } from "./error.js";
export { Random } from "./random.js";
export { Proposal, Reflector } from "./reflector.js";
export { failed, notApplicable, Reward, scored } from "./reward.js";
export { Context, textOf } from "./values.js";
