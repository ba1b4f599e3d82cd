// A small private key-value store, if the operator granted one (`--grant kv`). claw.toml asks for it with `kv = true` in [grants].

import kv from "clawhost:kv/kv@0.1.0";
import { PluginError } from "./error.js";

/** The value as bytes, or `null`. */
export const get = (key) => asking(() => kv.get(key) ?? null);
/** Stores bytes. */
export const set = (key, value) => asking(() => kv.set(key, value));
/** Removes a value; says whether there was one. */
export const remove = (key) => asking(() => kv.delete(key));
/** Keys that begin with `prefix`, in byte order. */
export const keys = (prefix, limit = 1000) => asking(() => kv.keys(prefix, limit));

function asking(work) {
    try {
        return work();
    } catch (error) {
        const { tag, val } = error.payload ?? error;
        throw tag ? new PluginError(`notes: ${tag}: ${val}`) : error;
    }
}
