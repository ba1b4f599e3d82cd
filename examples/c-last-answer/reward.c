// A reward plugin in C: 1 if the policy's last message is the task's reference, else 0.
//
// `reward_plugin.h` is generated from the WIT. Its names are long but regular: the package, the interface, the name.
//
// Memory rules that the compiler does not check:
//
// - Values from the host are ours: free them with the `..._free` function of their type.
// - Values that we return are freed after the host has read them: they must come from `malloc`, never from a literal. So strings
//   are made with `reward_plugin_string_dup`.
// - The group and every episode taken from it are handles of ours: drop them when done.
// - Strings are UTF-8 and do not end with a zero byte.
//
// A rule of this build: no WASI. `printf` and everything else that writes, reads, or asks for the time or the
// environment would import it, and build.sh refuses that. `malloc` and <string.h> are fine, and
// `clawhost_log_log_write` replaces `printf`.

#include <stdlib.h>
#include <string.h>

#include "reward_plugin.h"

// Shorter names for what is used most.
typedef reward_plugin_string_t string;
typedef clawhost_episode_view_borrow_episode_view_t episode_view;
typedef exports_clawhost_reward_reward_verdict_t verdict;

// The longest part of an answer that a rationale repeats, in bytes.
enum { SHOWN = 80 };

// ---------------------------------------------------------------------------------------------------------------- text

static void *allocate(size_t size) {
    void *memory = malloc(size > 0 ? size : 1);
    if (memory == NULL) {
        __builtin_trap();
    }
    return memory;
}

// A growing text. Its owner frees `bytes`.
typedef struct {
    char *bytes;
    size_t length;
    size_t capacity;
} buffer;

static void append(buffer *text, const char *bytes, size_t length) {
    if (length > text->capacity - text->length) {
        size_t capacity = 2 * (text->length + length);
        char *larger = allocate(capacity);
        if (text->length > 0) {
            memcpy(larger, text->bytes, text->length);
        }
        free(text->bytes);
        text->bytes = larger;
        text->capacity = capacity;
    }
    if (length > 0) {
        memcpy(text->bytes + text->length, bytes, length);
        text->length += length;
    }
}

static void append_literal(buffer *text, const char *literal) {
    append(text, literal, strlen(literal));
}

// A part of a text; it owns nothing.
typedef struct {
    const char *bytes;
    size_t length;
} slice;

static bool is_space(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// The text without white space, and without full stops, at its ends.
static slice trim(slice text) {
    while (text.length > 0 && (is_space(text.bytes[0]) || text.bytes[0] == '.')) {
        text.bytes++;
        text.length--;
    }
    while (text.length > 0 && (is_space(text.bytes[text.length - 1]) || text.bytes[text.length - 1] == '.')) {
        text.length--;
    }
    return text;
}

// Only the letters a to z have a lower case here.
static char lower(char byte) {
    return byte >= 'A' && byte <= 'Z' ? (char)(byte + ('a' - 'A')) : byte;
}

static bool equal(slice left, slice right) {
    if (left.length != right.length) {
        return false;
    }
    for (size_t at = 0; at < left.length; at++) {
        if (lower(left.bytes[at]) != lower(right.bytes[at])) {
            return false;
        }
    }
    return true;
}

// At most `limit` bytes of a text, never half a character: UTF-8 continues with bytes 10xxxxxx.
static slice cut(slice text, size_t limit) {
    if (text.length > limit) {
        text.length = limit;
        while (text.length > 0 && ((unsigned char)text.bytes[text.length] & 0xc0) == 0x80) {
            text.length--;
        }
    }
    return text;
}

// ---------------------------------------------------------------------------------------------------------------- JSON

// Four hexadecimal digits, or -1.
static long hexadecimal(const char *digits, size_t available) {
    long value = 0;
    for (size_t at = 0; at < 4; at++) {
        char digit = at < available ? lower(digits[at]) : 0;
        if (digit >= '0' && digit <= '9') {
            value = 16 * value + (digit - '0');
        } else if (digit >= 'a' && digit <= 'f') {
            value = 16 * value + (digit - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

static void append_character(buffer *text, long code) {
    char bytes[4];
    size_t length;
    if (code < 0x80) {
        bytes[0] = (char)code;
        length = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | (code >> 6));
        bytes[1] = (char)(0x80 | (code & 0x3f));
        length = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | (code >> 12));
        bytes[1] = (char)(0x80 | ((code >> 6) & 0x3f));
        bytes[2] = (char)(0x80 | (code & 0x3f));
        length = 3;
    } else {
        bytes[0] = (char)(0xf0 | (code >> 18));
        bytes[1] = (char)(0x80 | ((code >> 12) & 0x3f));
        bytes[2] = (char)(0x80 | ((code >> 6) & 0x3f));
        bytes[3] = (char)(0x80 | (code & 0x3f));
        length = 4;
    }
    append(text, bytes, length);
}

// Reads one escape; `at` is after the backslash and is moved after the escape. False: it is not an escape.
static bool unescape(slice json, size_t *at, buffer *text) {
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (*at >= json.length) {
        return false;
    }
    char escape = json.bytes[(*at)++];
    if (escape != 'u') {
        const char *found = memchr(escapes, escape, sizeof escapes - 1);
        if (found != NULL) {
            append(text, &meanings[found - escapes], 1);
        }
        return found != NULL;
    }
    long code = hexadecimal(json.bytes + *at, json.length - *at);
    if (code < 0) {
        return false;
    }
    *at += 4;
    if (code >= 0xd800 && code <= 0xdfff) {
        // Half of a pair: the other half must follow.
        if (code >= 0xdc00 || json.length - *at < 6 || memcmp(json.bytes + *at, "\\u", 2) != 0) {
            return false;
        }
        long second = hexadecimal(json.bytes + *at + 2, 4);
        if (second < 0xdc00 || second > 0xdfff) {
            return false;
        }
        *at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
    }
    append_character(text, code);
    return true;
}

// The text of a JSON string. False: the JSON is another value, or invalid.
static bool json_string(slice json, buffer *text) {
    while (json.length > 0 && is_space(json.bytes[0])) {
        json.bytes++;
        json.length--;
    }
    while (json.length > 0 && is_space(json.bytes[json.length - 1])) {
        json.length--;
    }
    if (json.length < 2 || json.bytes[0] != '"') {
        return false;
    }
    for (size_t at = 1; at < json.length;) {
        char byte = json.bytes[at++];
        if (byte == '"') {
            return at == json.length;
        }
        if ((unsigned char)byte < ' ') {
            return false;
        }
        if (byte != '\\') {
            append(text, &byte, 1);
        } else if (!unescape(json, &at, text)) {
            return false;
        }
    }
    return false;
}

// ------------------------------------------------------------------------------------------------------------- judging

// The text parts of a message, one per line. A policy may also send JSON or stored bytes: they do not count.
static void message_text(const clawhost_types_types_message_t *message, buffer *text) {
    for (size_t at = 0; at < message->parts.len; at++) {
        const clawhost_types_types_part_t *part = &message->parts.ptr[at];
        if (part->tag == CLAWHOST_TYPES_TYPES_PART_TEXT) {
            if (text->length > 0) {
                append_literal(text, "\n");
            }
            append(text, (const char *)part->val.text.ptr, part->val.text.len);
        }
    }
}

// The last message of the policy. False: it never acted.
static bool last_text(episode_view episode, buffer *text) {
    uint32_t count = clawhost_episode_view_method_episode_view_turn_count(episode);
    if (count == 0) {
        return false;
    }
    clawhost_episode_view_list_turn_t turns;
    clawhost_episode_view_method_episode_view_turns(episode, count - 1, 1, &turns);
    if (turns.len > 0) {
        message_text(&turns.ptr[0].action, text);
    }
    bool found = turns.len > 0;
    clawhost_episode_view_list_turn_free(&turns);
    return found;
}

static bool episode_failed(episode_view episode) {
    clawhost_episode_view_ending_t ending;
    clawhost_episode_view_method_episode_view_ending(episode, &ending);
    bool failed = ending.tag == CLAWHOST_EPISODE_VIEW_ENDING_FAILED;
    clawhost_episode_view_ending_free(&ending);
    return failed;
}

static void not_applicable(const char *reason, verdict *result) {
    result->tag = EXPORTS_CLAWHOST_REWARD_REWARD_VERDICT_NOT_APPLICABLE;
    reward_plugin_string_dup(&result->val.not_applicable, reason);
}

static void compare(slice answer, slice gold, verdict *result) {
    bool right = equal(trim(answer), trim(gold));
    slice shown = cut(trim(answer), SHOWN);
    buffer rationale = {0};
    append_literal(&rationale, "`");
    append(&rationale, shown.bytes, shown.length);
    append_literal(&rationale, right ? "` is the reference" : "` is not the reference");

    // Zeroed: no parts, nothing per turn, nothing extra.
    memset(result, 0, sizeof *result);
    result->tag = EXPORTS_CLAWHOST_REWARD_REWARD_VERDICT_SCORED;
    result->val.scored.value = right ? 1.0 : 0.0;
    result->val.scored.confidence = 1.0;
    reward_plugin_string_dup_n(&result->val.scored.rationale, rationale.bytes, rationale.length);
    free(rationale.bytes);
}

static void judge(episode_view episode, verdict *result) {
    if (episode_failed(episode)) {
        not_applicable("the episode failed", result);
        return;
    }
    clawhost_episode_view_task_t task;
    clawhost_episode_view_method_episode_view_task(episode, &task);
    buffer gold = {0}, answer = {0};
    slice json = {(const char *)task.reference.val.ptr, task.reference.val.len};
    if (!task.reference.is_some) {
        not_applicable("the task has no reference", result);
    } else if (!json_string(json, &gold)) {
        not_applicable("the reference is no JSON string", result);
    } else if (!last_text(episode, &answer)) {
        not_applicable("the policy never had its turn", result);
    } else {
        compare((slice){answer.bytes, answer.length}, (slice){gold.bytes, gold.length}, result);
    }
    free(answer.bytes);
    free(gold.bytes);
    clawhost_episode_view_task_free(&task);
}

// ------------------------------------------------------------------------------------------------------------- exports

// True: `ret` is the answer. False: `err` is.
bool exports_clawhost_reward_reward_describe(exports_clawhost_reward_reward_description_t *ret,
                                             exports_clawhost_reward_reward_reward_error_t *err) {
    (void)err;
    // Zeroed: no features, no options, nothing extra.
    memset(ret, 0, sizeof *ret);
    reward_plugin_string_dup(&ret->about.name, "c-last-answer");
    reward_plugin_string_dup(&ret->about.version, "0.1.0");
    reward_plugin_string_dup(&ret->about.summary, "1 if the policy's last message is the task's reference, else 0");
    ret->minimum = 0.0;
    ret->maximum = 1.0;
    ret->source.tag = EXPORTS_CLAWHOST_REWARD_REWARD_SOURCE_OUTCOME;
    ret->scope = EXPORTS_CLAWHOST_REWARD_REWARD_SCOPE_EACH;
    return true;
}

// There are no options, so the host refuses all.
bool exports_clawhost_reward_reward_check(exports_clawhost_reward_reward_attributes_t *options,
                                          exports_clawhost_reward_reward_reward_error_t *err) {
    (void)err;
    exports_clawhost_reward_reward_attributes_free(options);
    return true;
}

// One verdict per episode, in order.
bool exports_clawhost_reward_reward_score(exports_clawhost_reward_reward_context_t *context,
                                          exports_clawhost_reward_reward_own_group_t group,
                                          exports_clawhost_reward_reward_list_verdict_t *ret,
                                          exports_clawhost_reward_reward_reward_error_t *err) {
    (void)err;
    clawhost_episode_view_borrow_group_t episodes = clawhost_episode_view_borrow_group(group);
    ret->len = clawhost_episode_view_method_group_size(episodes);
    ret->ptr = allocate(ret->len * sizeof *ret->ptr);
    for (uint32_t index = 0; index < ret->len; index++) {
        clawhost_episode_view_own_episode_view_t episode = clawhost_episode_view_method_group_episode(episodes, index);
        judge(clawhost_episode_view_borrow_episode_view(episode), &ret->ptr[index]);
        clawhost_episode_view_episode_view_drop_own(episode);
    }
    clawhost_episode_view_group_drop_own(group);
    exports_clawhost_reward_reward_context_free(context);
    return true;
}
