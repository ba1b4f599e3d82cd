// The SDK for plugins in C: environments of text, and rewards.
//
// `clawhost build` compiles this layer, and the bindings of the WIT, with your `src/*.c`, and links a component.
//
// Rules:
//
// - A `claw_text` has a length and no zero byte at its end. Texts that functions of this header return live until the call of the host ends.
//   What an episode keeps longer belongs in its state, as numbers or as your own copy (`malloc`).
// - No WASI: `printf` and everything else that writes, reads, or asks for the time would import it, and the build refuses that. `malloc` and
//   <string.h> are fine; `claw_format` and `claw_log` replace `printf`.
// - All randomness comes from the seed. `abort` and broken rules end the plugin.
#ifndef CLAWHOST_H
#define CLAWHOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---------------------------------------------------------------------------------------------------------------- text

// A text in UTF-8.
typedef struct {
    const char *bytes;
    size_t length;
} claw_text;

// A literal as a text.
#define CLAW(literal) ((claw_text){(literal), sizeof(literal) - 1})

// A text from a part of what `printf` knows: %s, %.*s, %d, %u, %lld, %llu, %c and %%. Anything else ends the plugin.
claw_text claw_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The text without white space at its ends.
claw_text claw_trim(claw_text text);

// Whether two texts are equal.
bool claw_equal(claw_text left, claw_text right);

// A whole number in decimal digits, with or without `-`; nothing else may be in the text. False: it is none.
bool claw_number(claw_text text, int64_t *number);

// A line in the log, for people who debug the plugin.
void claw_log(claw_text text);

// -------------------------------------------------------------------------------------------------------------- random

// A generator whose numbers follow from its seed (SplitMix64, Steele et al. 2014): equal in every language of the SDK. Not for secrets.
typedef struct {
    uint64_t state;
} claw_random;

claw_random claw_random_new(uint64_t seed);

// Any 64-bit number.
uint64_t claw_random_next(claw_random *random);

// A number below `bound`, or 0 if `bound` is 0.
uint64_t claw_random_below(claw_random *random, uint64_t bound);

// A number from `low` to `high`, both included.
int64_t claw_random_between(claw_random *random, int64_t low, int64_t high);

// -------------------------------------------------------------------------------------------------------- environments

// What an environment is. Define `claw_environment`, `claw_start` and `claw_step`.
typedef struct {
    const char *name;
    const char *version;
    const char *summary;
    // Size of an episode's state, in bytes.
    size_t state;
} claw_environment_about;

extern const claw_environment_about claw_environment;

// Numbers that were measured in a step.
typedef struct claw_signals claw_signals;

// Records a number. A later value replaces an earlier one with the same name. At most 256.
void claw_signal(claw_signals *signals, const char *name, double value);

// The result of an action.
typedef struct {
    enum { CLAW_CONTINUE, CLAW_DONE, CLAW_STOP, CLAW_ERROR } kind;
    claw_text text;
    // Why an episode is truncated.
    claw_text reason;
} claw_next;

// The episode continues with this observation.
claw_next claw_continue(claw_text text);
// The episode is terminated, with this observation.
claw_next claw_done(claw_text text);
// The episode is truncated for a reason outside the task.
claw_next claw_stop(claw_text text, claw_text reason);
// The action cannot be understood: the text is the next observation, and the signal `invalid_action` is 1.
claw_next claw_error(claw_text text);

// Begins an episode, and returns the first observation. The state is zeroed. Equal seeds must give equal episodes.
claw_text claw_start(void *state, claw_text task, uint64_t seed);

// Executes an action.
claw_next claw_step(void *state, claw_text action, claw_signals *signals);

// ------------------------------------------------------------------------------------------------------------- rewards

// What a reward is. Define `claw_reward` and `claw_score`.
typedef struct {
    const char *name;
    const char *version;
    const char *summary;
    // Smallest and largest value, in -1 to 1.
    double minimum, maximum;
    // Where its verdicts come from. The most reliable source decides.
    enum { CLAW_OUTCOME, CLAW_EXECUTION } source;
    // What it reads, as `signal NAME`, `artefact NAME`, `reference`, up to the first NULL: the host warns if no episode has any of it.
    const char *reads[8];
} claw_reward_about;

extern const claw_reward_about claw_reward;

// A recorded episode. Only what is asked for is copied into the plugin.
typedef struct claw_episode claw_episode;

// The task's text.
claw_text claw_input(const claw_episode *episode);
// The task's reference, as JSON. False: it has none.
bool claw_reference(const claw_episode *episode, claw_text *json);
// The text of the agent's last message; empty if it never acted.
claw_text claw_last_answer(const claw_episode *episode);
// The last value of a signal. False: there is none.
bool claw_signal_of(const claw_episode *episode, const char *name, double *value);
// The content of an artefact. False: there is none.
bool claw_artefact_of(const claw_episode *episode, const char *name, claw_text *content);

// What a reward says about an episode.
typedef struct {
    enum { CLAW_SCORED, CLAW_NOT_APPLICABLE, CLAW_FAILED } kind;
    double value;
    // The reason, for people.
    claw_text why;
} claw_verdict;

// It has a value, in the reward's range: the host refuses other values.
claw_verdict claw_scored(double value, claw_text why);
// This reward has nothing to say about the episode. Never a number.
claw_verdict claw_not_applicable(claw_text why);
// It could not be judged. Never a number.
claw_verdict claw_failed(claw_text why);

// Judges one episode.
claw_verdict claw_score(const claw_episode *episode);

// ------------------------------------------------------------------------------------------------- for the layer itself

// Memory until the call of the host ends.
void *claw_scratch(size_t size);
// Frees all of it.
void claw_scratch_free(void);

#endif
