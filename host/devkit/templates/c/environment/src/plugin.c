#include "clawhost.h"

// One episode. It holds the right answer.
typedef struct {
    int64_t right;
} {{type}};

const claw_environment_about claw_environment = {"{{name}}", "0.1.0", "how many steps does a tower have?", sizeof({{type}})};

claw_text claw_start(void *state, claw_text task, uint64_t seed) {
    {{type}} *episode = state;
    claw_random random = claw_random_new(seed);
    int floors = (int)claw_random_between(&random, 2, 40), steps = (int)claw_random_between(&random, 10, 30);
    episode->right = floors * steps;
    (void)task;
    return claw_format("A tower has %d floors with %d steps each.\ncalculate %d * %d", floors, steps, floors, steps);
}

claw_next claw_step(void *state, claw_text action, claw_signals *signals) {
    const {{type}} *episode = state;
    int64_t answer;
    if (!claw_number(claw_trim(action), &answer)) {
        return claw_error(CLAW("answer with one whole number"));
    }
    claw_signal(signals, "right", answer == episode->right);
    return claw_done(answer == episode->right ? CLAW("Right.") : CLAW("Wrong."));
}
