// The interface `environment`, as the host calls it, for environments of text in C.

#include "clawhost.h"
#include "environment_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef environment_plugin_string_t string;
typedef exports_clawhost_environment_environment_env_error_t env_error;

enum { MOST_SIGNALS = 256 };

// One episode, as the host holds it: the author's state follows.
struct exports_clawhost_environment_environment_episode_t {
    uint64_t aligned;
};

static void *allocate(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    if (memory == NULL) {
        __builtin_trap();
    }
    return memory;
}

// A copy that the host frees.
static void copy(string *ret, claw_text text) {
    environment_plugin_string_dup_n(ret, text.bytes, text.length);
}

void claw_log(claw_text text) {
    string line = {(uint8_t *)text.bytes, text.length};
    clawhost_log_log_write(CLAWHOST_LOG_LOG_LEVEL_DEBUG, &line);
}

struct claw_signals {
    const char *names[MOST_SIGNALS];
    double values[MOST_SIGNALS];
    size_t count;
};

void claw_signal(claw_signals *signals, const char *name, double value) {
    size_t at = 0;
    while (at < signals->count && strcmp(signals->names[at], name) != 0) {
        at++;
    }
    if (at == MOST_SIGNALS) {
        __builtin_trap();
    }
    signals->names[at] = name;
    signals->values[at] = value;
    signals->count = at == signals->count ? at + 1 : signals->count;
}

claw_next claw_continue(claw_text text) {
    return (claw_next){CLAW_CONTINUE, text, CLAW("")};
}

claw_next claw_done(claw_text text) {
    return (claw_next){CLAW_DONE, text, CLAW("")};
}

claw_next claw_stop(claw_text text, claw_text reason) {
    return (claw_next){CLAW_STOP, text, reason};
}

claw_next claw_error(claw_text text) {
    return (claw_next){CLAW_ERROR, text, CLAW("")};
}

// The text of a message: its text and JSON parts, a line each.
static claw_text text_of(const clawhost_types_types_message_t *message) {
    claw_text all = CLAW("");
    for (size_t at = 0; at < message->parts.len; at++) {
        const clawhost_types_types_part_t *part = &message->parts.ptr[at];
        if (part->tag == CLAWHOST_TYPES_TYPES_PART_TEXT || part->tag == CLAWHOST_TYPES_TYPES_PART_JSON) {
            const char *between = all.length > 0 ? "\n" : "";
            all = claw_format("%.*s%s%.*s", (int)all.length, all.bytes, between, (int)part->val.text.len,
                              (const char *)part->val.text.ptr);
        }
    }
    return all;
}

// One message with this text. The host writes `origin` itself.
static void say(exports_clawhost_environment_environment_list_message_t *ret, claw_text text) {
    ret->ptr = allocate(sizeof *ret->ptr);
    ret->len = 1;
    ret->ptr->role = CLAWHOST_TYPES_TYPES_ROLE_USER;
    ret->ptr->origin = CLAWHOST_TYPES_TYPES_ORIGIN_ENVIRONMENT;
    ret->ptr->parts.ptr = allocate(sizeof *ret->ptr->parts.ptr);
    ret->ptr->parts.len = 1;
    ret->ptr->parts.ptr->tag = CLAWHOST_TYPES_TYPES_PART_TEXT;
    copy(&ret->ptr->parts.ptr->val.text, text);
}

static const struct {
    const char *name;
    uint64_t tasks;
} SPLITS[] = {{"train", 1000}, {"val", 200}, {"test", 200}};
enum { SPLIT_COUNT = sizeof SPLITS / sizeof SPLITS[0] };

bool exports_clawhost_environment_environment_describe(exports_clawhost_environment_environment_description_t *ret,
                                                       env_error *err) {
    (void)err;
    memset(ret, 0, sizeof *ret);
    environment_plugin_string_dup(&ret->about.name, claw_environment.name);
    environment_plugin_string_dup(&ret->about.version, claw_environment.version);
    environment_plugin_string_dup(&ret->about.summary, claw_environment.summary);
    ret->about.extra.ptr = allocate(sizeof *ret->about.extra.ptr);
    ret->about.extra.len = 1;
    environment_plugin_string_dup(&ret->about.extra.ptr->f0, "sdk");
    environment_plugin_string_dup(&ret->about.extra.ptr->f1, "c 0.1.0");
    ret->splits.ptr = allocate(SPLIT_COUNT * sizeof *ret->splits.ptr);
    ret->splits.len = SPLIT_COUNT;
    for (size_t at = 0; at < SPLIT_COUNT; at++) {
        environment_plugin_string_dup(&ret->splits.ptr[at].name, SPLITS[at].name);
        ret->splits.ptr[at].tasks = SPLITS[at].tasks;
    }
    return true;
}

// There are no options, so the host refuses all.
bool exports_clawhost_environment_environment_check(exports_clawhost_environment_environment_attributes_t *options,
                                                    env_error *err) {
    (void)err;
    exports_clawhost_environment_environment_attributes_free(options);
    return true;
}

bool exports_clawhost_environment_environment_tasks(exports_clawhost_environment_environment_context_t *context,
                                                    string *split, uint64_t offset, uint32_t limit,
                                                    exports_clawhost_environment_environment_list_task_t *ret,
                                                    env_error *err) {
    (void)err;
    claw_text asked = {(const char *)split->ptr, split->len};
    uint64_t size = 0;
    for (size_t at = 0; at < SPLIT_COUNT; at++) {
        claw_text name = {SPLITS[at].name, strlen(SPLITS[at].name)};
        size = claw_equal(asked, name) ? SPLITS[at].tasks : size;
    }
    uint64_t left = offset < size ? size - offset : 0;
    ret->len = left < limit ? (size_t)left : limit;
    ret->ptr = allocate(ret->len * sizeof *ret->ptr);
    for (size_t at = 0; at < ret->len; at++) {
        copy(&ret->ptr[at].split, asked);
        unsigned long long position = offset + at;
        copy(&ret->ptr[at].id, claw_format("%.*s-%llu", (int)asked.length, asked.bytes, position));
        copy(&ret->ptr[at].input, CLAW(""));
    }
    environment_plugin_string_free(split);
    exports_clawhost_environment_environment_context_free(context);
    claw_scratch_free();
    return true;
}

bool exports_clawhost_environment_environment_static_episode_start(
    exports_clawhost_environment_environment_params_t *params,
    exports_clawhost_environment_environment_tuple2_own_episode_opening_t *ret, env_error *err) {
    (void)err;
    exports_clawhost_environment_environment_episode_t *episode = allocate(sizeof *episode + claw_environment.state);
    claw_text task = {(const char *)params->task.input.ptr, params->task.input.len};
    claw_text observation = claw_start(episode + 1, task, params->context.seed);
    memset(&ret->f1, 0, sizeof ret->f1);
    say(&ret->f1.observation, observation);
    ret->f0 = exports_clawhost_environment_environment_episode_new(episode);
    exports_clawhost_environment_environment_params_free(params);
    claw_scratch_free();
    return true;
}

static bool no_snapshots(env_error *err) {
    err->tag = EXPORTS_CLAWHOST_ENVIRONMENT_ENVIRONMENT_ENV_ERROR_UNSUPPORTED;
    environment_plugin_string_dup(&err->val.unsupported, "this environment has no snapshots");
    return false;
}

bool exports_clawhost_environment_environment_static_episode_restore(
    exports_clawhost_environment_environment_params_t *params, environment_plugin_list_u8_t *state,
    exports_clawhost_environment_environment_own_episode_t *ret, env_error *err) {
    (void)ret;
    exports_clawhost_environment_environment_params_free(params);
    environment_plugin_list_u8_free(state);
    return no_snapshots(err);
}

bool exports_clawhost_environment_environment_method_episode_snapshot(
    exports_clawhost_environment_environment_borrow_episode_t self, environment_plugin_list_u8_t *ret, env_error *err) {
    (void)self;
    (void)ret;
    return no_snapshots(err);
}

bool exports_clawhost_environment_environment_method_episode_step(
    exports_clawhost_environment_environment_borrow_episode_t self,
    exports_clawhost_environment_environment_action_t *action,
    exports_clawhost_environment_environment_step_result_t *ret, env_error *err) {
    (void)err;
    claw_signals signals = {0};
    claw_next next = claw_step(self + 1, text_of(&action->message), &signals);
    memset(ret, 0, sizeof *ret);
    say(&ret->observation, next.text);
    ret->status.tag = EXPORTS_CLAWHOST_ENVIRONMENT_ENVIRONMENT_STATUS_RUNNING;
    if (next.kind == CLAW_DONE) {
        ret->status.tag = EXPORTS_CLAWHOST_ENVIRONMENT_ENVIRONMENT_STATUS_TERMINATED;
    } else if (next.kind == CLAW_STOP) {
        ret->status.tag = EXPORTS_CLAWHOST_ENVIRONMENT_ENVIRONMENT_STATUS_TRUNCATED;
        copy(&ret->status.val.truncated, next.reason);
    } else if (next.kind == CLAW_ERROR) {
        claw_signal(&signals, "invalid_action", 1);
    }
    ret->signals.len = signals.count;
    ret->signals.ptr = allocate(signals.count * sizeof *ret->signals.ptr);
    for (size_t at = 0; at < signals.count; at++) {
        environment_plugin_string_dup(&ret->signals.ptr[at].name, signals.names[at]);
        ret->signals.ptr[at].value = signals.values[at];
    }
    exports_clawhost_environment_environment_action_free(action);
    claw_scratch_free();
    return true;
}

void exports_clawhost_environment_environment_episode_destructor(exports_clawhost_environment_environment_episode_t *rep) {
    free(rep);
}
