#include "clawhost.h"

// Judges what the host recorded, in a sandbox of its own: an environment never scores itself.
const claw_reward_about claw_reward = {
    .name = "{{name}}-reward",
    .version = "0.1.0",
    .summary = "1 if the answer was right",
    .maximum = 1,
    .reads = {"signal right"},
};

claw_verdict claw_score(const claw_episode *episode) {
    double right;
    if (!claw_signal_of(episode, "right", &right)) {
        return claw_scored(0, CLAW("there was no answer"));
    }
    return claw_scored(right, CLAW(""));
}
