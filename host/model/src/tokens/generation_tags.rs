//! The tags `{% generation %}` and `{% endgeneration %}`: they mark what an assistant said for a loss of transformers, and print nothing.

/// The template with the tags replaced by a condition that always holds, so that the control of white space around them stays.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(place) = rest.find("{%") {
        let (before, tag) = rest.split_at(place);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        out.push_str(&replaced(tag).unwrap_or_else(|| tag.to_owned()));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn replaced(tag: &str) -> Option<String> {
    let inside = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let signs = ['-', '+'];
    let word = inside.strip_prefix(signs).unwrap_or(inside);
    let word = word.strip_suffix(signs).unwrap_or(word).trim();
    let by = match word {
        "generation" => "if true",
        "endgeneration" => "endif",
        _ => return None,
    };
    Some(tag.replace(word, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tags_become_conditions_with_their_control_of_white_space() {
        let check = |source: &str, expect: &str| assert_eq!(without_generation_tags(source), expect);
        check("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c");
        check("{%- generation -%} b {%-endgeneration+%}", "{%- if true -%} b {%-endif+%}");
        check("{% if generation %}{% set endgeneration = 1 %}", "{% if generation %}{% set endgeneration = 1 %}");
        check("{% generation", "{% generation");
        check("no tag {{ generation }}", "no tag {{ generation }}");
    }
}
