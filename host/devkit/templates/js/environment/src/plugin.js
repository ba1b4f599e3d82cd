import { done, Environment, PluginError, Random } from "clawhost";

/** One episode. It holds the right answer. */
export default class {{type}} extends Environment {
    static name = "{{name}}";
    static version = "0.1.0";
    static summary = "how many steps does a tower have?";

    start(task, seed) {
        const random = new Random(seed);
        const [floors, steps] = [random.between(2, 40), random.between(10, 30)];
        this.right = floors * steps;
        return `A tower has ${floors} floors with ${steps} steps each.\ncalculate ${floors} * ${steps}`;
    }

    step(action, signals) {
        const answer = Number(action.trim() || NaN);
        if (!Number.isInteger(answer)) {
            throw new PluginError("answer with one whole number");
        }
        signals.right = answer === this.right ? 1 : 0;
        return done(answer === this.right ? "Right." : "Wrong.");
    }
}
