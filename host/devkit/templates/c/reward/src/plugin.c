#include "clawhost.h"

// Compares the last answer with the task's reference, which is JSON: a text in quotes, or a number.
const claw_reward_about claw_reward = {
    .name = "{{name}}",
    .version = "0.1.0",
    .summary = "1 if the last answer is the reference",
    .maximum = 1,
    .reads = {"reference"},
};

static claw_text unquoted(claw_text text) {
    bool is_quoted = text.length >= 2 && text.bytes[0] == '"' && text.bytes[text.length - 1] == '"';
    return is_quoted ? (claw_text){text.bytes + 1, text.length - 2} : text;
}

claw_verdict claw_score(const claw_episode *episode) {
    claw_text reference;
    if (!claw_reference(episode, &reference)) {
        return claw_not_applicable(CLAW("the task has no reference"));
    }
    claw_text wanted = unquoted(reference);
    bool is_right = claw_equal(claw_trim(claw_last_answer(episode)), wanted);
    return claw_scored(is_right ? 1 : 0, claw_format("wanted `%.*s`", (int)wanted.length, wanted.bytes));
}
