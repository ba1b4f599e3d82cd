// What environments and rewards in C share: texts, numbers, memory.

#include "clawhost.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Blocks of memory that live until the call of the host ends, the newest first.
typedef struct block {
    struct block *next;
} block;

static block *blocks;

void *claw_scratch(size_t size) {
    block *made = size < SIZE_MAX / 2 ? malloc(sizeof(block) + size) : NULL;
    if (made == NULL) {
        __builtin_trap();
    }
    made->next = blocks;
    blocks = made;
    return made + 1;
}

void claw_scratch_free(void) {
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

// A text that grows in scratch memory.
typedef struct {
    char *bytes;
    size_t length, capacity;
} buffer;

static void append(buffer *text, const char *bytes, size_t length) {
    if (length > text->capacity - text->length) {
        size_t capacity = 2 * (text->length + length);
        char *larger = claw_scratch(capacity);
        if (text->length > 0) {
            memcpy(larger, text->bytes, text->length);
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    if (length > 0) {
        memcpy(text->bytes + text->length, bytes, length);
        text->length += length;
    }
}

static void append_number(buffer *text, uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    append(text, digits + at, sizeof digits - at);
}

static void append_signed(buffer *text, int64_t number) {
    if (number < 0) {
        append(text, "-", 1);
    }
    append_number(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

// Whether the format goes on with these characters, which are then passed.
static bool takes(const char **format, const char *characters) {
    size_t length = strlen(characters);
    bool found = strncmp(*format, characters, length) == 0;
    *format += found ? length : 0;
    return found;
}

claw_text claw_format(const char *format, ...) {
    buffer text = {0};
    va_list arguments;
    va_start(arguments, format);
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        append(&text, format, plain);
        format += plain;
        if (*format == '\0') {
            break;
        }
        format++;
        if (takes(&format, "s")) {
            const char *part = va_arg(arguments, const char *);
            append(&text, part, strlen(part));
        } else if (takes(&format, ".*s")) {
            int length = va_arg(arguments, int);
            append(&text, va_arg(arguments, const char *), length > 0 ? (size_t)length : 0);
        } else if (takes(&format, "d")) {
            append_signed(&text, va_arg(arguments, int));
        } else if (takes(&format, "u")) {
            append_number(&text, va_arg(arguments, unsigned));
        } else if (takes(&format, "lld")) {
            append_signed(&text, va_arg(arguments, long long));
        } else if (takes(&format, "llu")) {
            append_number(&text, va_arg(arguments, unsigned long long));
        } else if (takes(&format, "c")) {
            char byte = (char)va_arg(arguments, int);
            append(&text, &byte, 1);
        } else if (takes(&format, "%")) {
            append(&text, "%", 1);
        } else {
            __builtin_trap();
        }
    }
    va_end(arguments);
    return (claw_text){text.bytes, text.length};
}

static bool is_space(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

claw_text claw_trim(claw_text text) {
    while (text.length > 0 && is_space(text.bytes[0])) {
        text.bytes++;
        text.length--;
    }
    while (text.length > 0 && is_space(text.bytes[text.length - 1])) {
        text.length--;
    }
    return text;
}

bool claw_equal(claw_text left, claw_text right) {
    return left.length == right.length && (left.length == 0 || memcmp(left.bytes, right.bytes, left.length) == 0);
}

bool claw_number(claw_text text, int64_t *number) {
    bool is_negative = text.length > 0 && text.bytes[0] == '-';
    size_t at = is_negative ? 1 : 0;
    if (at == text.length) {
        return false;
    }
    // One more than INT64_MAX is possible with a minus.
    uint64_t most = (uint64_t)INT64_MAX + (is_negative ? 1 : 0), value = 0;
    for (; at < text.length; at++) {
        unsigned digit = (unsigned)(text.bytes[at] - '0');
        if (digit > 9 || value > (most - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *number = (int64_t)(is_negative ? 0 - value : value);
    return true;
}

claw_random claw_random_new(uint64_t seed) {
    return (claw_random){seed};
}

uint64_t claw_random_next(claw_random *random) {
    random->state += 0x9e3779b97f4a7c15u;
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t claw_random_below(claw_random *random, uint64_t bound) {
    // The upper half of a product of 128 bits, from halves: there is no runtime library with wider numbers.
    uint64_t number = claw_random_next(random);
    uint64_t low = (number & UINT32_MAX) * (bound & UINT32_MAX);
    uint64_t first = (number >> 32) * (bound & UINT32_MAX) + (low >> 32);
    uint64_t second = (number & UINT32_MAX) * (bound >> 32) + (first & UINT32_MAX);
    return (number >> 32) * (bound >> 32) + (first >> 32) + (second >> 32);
}

int64_t claw_random_between(claw_random *random, int64_t low, int64_t high) {
    uint64_t span = high > low ? (uint64_t)high - (uint64_t)low : 0;
    return (int64_t)((uint64_t)low + claw_random_below(random, span == UINT64_MAX ? span : span + 1));
}
