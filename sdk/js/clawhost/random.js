// Numbers from a seed: equal in every language of the SDK.

const MASK = (1n << 64n) - 1n;

/** A generator whose numbers follow from its seed (SplitMix64, Steele et al. 2014). Not for secrets. */
export class Random {
    #state;

    constructor(seed) {
        this.#state = BigInt(seed) & MASK;
    }

    /** A generator for a position of a split, the same whatever else is drawn: an environment makes its tasks with it. */
    static at(seed, split, position) {
        let name = 0n;
        for (const byte of utf8(split)) {
            name = (name * 257n + BigInt(byte)) & MASK;
        }
        const place = new Random(name ^ new Random(position).next()).next();
        return new Random((BigInt(seed) & MASK) ^ place);
    }

    /** Any 64-bit number, as a BigInt. */
    next() {
        this.#state = (this.#state + 0x9e3779b97f4a7c15n) & MASK;
        let z = this.#state;
        z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
        z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
        return z ^ (z >> 31n);
    }

    /** A number below `bound`, or 0 if `bound` is 0. Exact for bounds up to 2^53. */
    below(bound) {
        return Number((this.next() * BigInt(bound)) >> 64n);
    }

    /** A number from `low` to `high`, both included. */
    between(low, high) {
        return low + this.below(Math.max(high - low, 0) + 1);
    }

    /** One of the items, or `undefined` if there are none. */
    choose(items) {
        return items[this.below(items.length)];
    }
}

/** The bytes of a text. There is no TextEncoder in every runtime. */
function utf8(text) {
    return Array.from(unescape(encodeURIComponent(text)), (byte) => byte.charCodeAt(0));
}
