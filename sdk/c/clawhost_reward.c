// The interface `reward`, as the host calls it, for rewards in C that judge each episode alone.

#include "clawhost.h"
#include "reward_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef reward_plugin_string_t string;
typedef exports_clawhost_reward_reward_reward_error_t reward_error;
typedef exports_clawhost_reward_reward_verdict_t wit_verdict;

struct claw_episode {
    clawhost_episode_view_borrow_episode_view_t view;
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
    reward_plugin_string_dup_n(ret, text.bytes, text.length);
}

// A copy in scratch memory.
static claw_text kept(const uint8_t *bytes, size_t length) {
    char *copied = claw_scratch(length);
    if (length > 0) {
        memcpy(copied, bytes, length);
    }
    return (claw_text){copied, length};
}

void claw_log(claw_text text) {
    string line = {(uint8_t *)text.bytes, text.length};
    clawhost_log_log_write(CLAWHOST_LOG_LOG_LEVEL_DEBUG, &line);
}

claw_text claw_input(const claw_episode *episode) {
    clawhost_episode_view_task_t task;
    clawhost_episode_view_method_episode_view_task(episode->view, &task);
    claw_text input = kept(task.input.ptr, task.input.len);
    clawhost_episode_view_task_free(&task);
    return input;
}

bool claw_reference(const claw_episode *episode, claw_text *json) {
    clawhost_episode_view_task_t task;
    clawhost_episode_view_method_episode_view_task(episode->view, &task);
    bool found = task.reference.is_some;
    if (found) {
        *json = kept(task.reference.val.ptr, task.reference.val.len);
    }
    clawhost_episode_view_task_free(&task);
    return found;
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

claw_text claw_last_answer(const claw_episode *episode) {
    uint32_t count = clawhost_episode_view_method_episode_view_turn_count(episode->view);
    if (count == 0) {
        return CLAW("");
    }
    clawhost_episode_view_list_turn_t turns;
    clawhost_episode_view_method_episode_view_turns(episode->view, count - 1, 1, &turns);
    claw_text answer = turns.len > 0 ? text_of(&turns.ptr[0].action) : CLAW("");
    clawhost_episode_view_list_turn_free(&turns);
    return answer;
}

bool claw_signal_of(const claw_episode *episode, const char *name, double *value) {
    clawhost_episode_view_list_signal_t signals;
    clawhost_episode_view_method_episode_view_signals(episode->view, &signals);
    bool found = false;
    for (size_t at = 0; at < signals.len; at++) {
        claw_text known = {(const char *)signals.ptr[at].name.ptr, signals.ptr[at].name.len};
        if (claw_equal(known, (claw_text){name, strlen(name)})) {
            *value = signals.ptr[at].value;
            found = true;
        }
    }
    clawhost_episode_view_list_signal_free(&signals);
    return found;
}

bool claw_artefact_of(const claw_episode *episode, const char *name, claw_text *content) {
    string asked = {(uint8_t *)name, strlen(name)};
    clawhost_episode_view_artefact_t artefact;
    if (!clawhost_episode_view_method_episode_view_artefact(episode->view, &asked, &artefact)) {
        return false;
    }
    *content = kept(artefact.bytes.ptr, artefact.bytes.len);
    clawhost_episode_view_artefact_free(&artefact);
    return true;
}

claw_verdict claw_scored(double value, claw_text why) {
    return (claw_verdict){CLAW_SCORED, value, why};
}

claw_verdict claw_not_applicable(claw_text why) {
    return (claw_verdict){CLAW_NOT_APPLICABLE, 0, why};
}

claw_verdict claw_failed(claw_text why) {
    return (claw_verdict){CLAW_FAILED, 0, why};
}

bool exports_clawhost_reward_reward_describe(exports_clawhost_reward_reward_description_t *ret, reward_error *err) {
    (void)err;
    memset(ret, 0, sizeof *ret);
    reward_plugin_string_dup(&ret->about.name, claw_reward.name);
    reward_plugin_string_dup(&ret->about.version, claw_reward.version);
    reward_plugin_string_dup(&ret->about.summary, claw_reward.summary);
    size_t reads = 0, most = sizeof claw_reward.reads / sizeof claw_reward.reads[0];
    while (reads < most && claw_reward.reads[reads] != NULL) {
        reads++;
    }
    ret->about.extra.len = reads + 1;
    ret->about.extra.ptr = allocate((reads + 1) * sizeof *ret->about.extra.ptr);
    reward_plugin_string_dup(&ret->about.extra.ptr[0].f0, "sdk");
    reward_plugin_string_dup(&ret->about.extra.ptr[0].f1, "c 0.1.0");
    for (size_t at = 0; at < reads; at++) {
        reward_plugin_string_dup(&ret->about.extra.ptr[at + 1].f0, "reads");
        reward_plugin_string_dup(&ret->about.extra.ptr[at + 1].f1, claw_reward.reads[at]);
    }
    ret->minimum = claw_reward.minimum;
    ret->maximum = claw_reward.maximum;
    ret->source.tag = claw_reward.source == CLAW_OUTCOME ? EXPORTS_CLAWHOST_REWARD_REWARD_SOURCE_OUTCOME
                                                         : EXPORTS_CLAWHOST_REWARD_REWARD_SOURCE_EXECUTION;
    ret->scope = EXPORTS_CLAWHOST_REWARD_REWARD_SCOPE_EACH;
    return true;
}

// There are no options, so the host refuses all.
bool exports_clawhost_reward_reward_check(exports_clawhost_reward_reward_attributes_t *options, reward_error *err) {
    (void)err;
    exports_clawhost_reward_reward_attributes_free(options);
    return true;
}

static void write_verdict(claw_verdict verdict, wit_verdict *ret) {
    memset(ret, 0, sizeof *ret);
    if (verdict.kind == CLAW_SCORED) {
        ret->tag = EXPORTS_CLAWHOST_REWARD_REWARD_VERDICT_SCORED;
        ret->val.scored.value = verdict.value;
        ret->val.scored.confidence = 1;
        copy(&ret->val.scored.rationale, verdict.why);
    } else if (verdict.kind == CLAW_NOT_APPLICABLE) {
        ret->tag = EXPORTS_CLAWHOST_REWARD_REWARD_VERDICT_NOT_APPLICABLE;
        copy(&ret->val.not_applicable, verdict.why);
    } else {
        ret->tag = EXPORTS_CLAWHOST_REWARD_REWARD_VERDICT_FAILED;
        copy(&ret->val.failed, verdict.why);
    }
}

// One verdict per episode, in order.
bool exports_clawhost_reward_reward_score(exports_clawhost_reward_reward_context_t *context,
                                          exports_clawhost_reward_reward_own_group_t group,
                                          exports_clawhost_reward_reward_list_verdict_t *ret, reward_error *err) {
    (void)err;
    clawhost_episode_view_borrow_group_t episodes = clawhost_episode_view_borrow_group(group);
    ret->len = clawhost_episode_view_method_group_size(episodes);
    ret->ptr = allocate(ret->len * sizeof *ret->ptr);
    for (uint32_t index = 0; index < ret->len; index++) {
        clawhost_episode_view_own_episode_view_t view = clawhost_episode_view_method_group_episode(episodes, index);
        claw_episode episode = {clawhost_episode_view_borrow_episode_view(view)};
        write_verdict(claw_score(&episode), &ret->ptr[index]);
        clawhost_episode_view_episode_view_drop_own(view);
        claw_scratch_free();
    }
    clawhost_episode_view_group_drop_own(group);
    exports_clawhost_reward_reward_context_free(context);
    return true;
}
