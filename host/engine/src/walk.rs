//! Measures a component before it is compiled.
//!
//! Compilers are made for programs that people write. A file of a few megabytes can contain a million functions, a function
//! with fifty thousand variables, or blocks nested a hundred thousand deep, and take minutes and gigabytes to compile. The
//! walk counts what the binary contains, without compiling or validating it, and rejects what no toolchain produces.
//! Remaining expensive components are stopped by the limits of the compiling process.

use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// The contents of a component, or their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Nesting depth of components.
    pub(crate) depth: usize,
    /// Number of modules and components.
    pub(crate) modules: usize,
    /// Number of functions in all modules.
    pub(crate) functions: usize,
    /// Bytes of the longest function.
    pub(crate) function_bytes: usize,
    /// Most variables of one function.
    pub(crate) locals: usize,
    /// Nesting depth of blocks.
    pub(crate) nesting: usize,
    /// Most jump-table targets of one function.
    pub(crate) jumps: usize,
    /// Number of types, imports, exports, globals, aliases, instances and segments.
    pub(crate) items: usize,
    /// Number of sections, including those that the engine ignores.
    pub(crate) sections: usize,
}

/// Five to twenty times the counts of the largest known components: a CPython with its library (13,367 functions, the
/// longest of 427 KB, 271 variables, blocks 781 deep, 15,805 jump targets, 25,657 items) and a QuickJS (35 modules, 3 deep).
pub(crate) const LIMITS: Measure = Measure {
    depth: 16,
    modules: 256,
    functions: 100_000,
    function_bytes: 2 << 20,
    locals: 5_000,
    nesting: 4_000,
    jumps: 100_000,
    items: 300_000,
    sections: 100_000,
};

/// Why the walk stopped.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The binary is malformed.
    Damaged(wasmparser::BinaryReaderError),
    /// A count exceeds its limit.
    TooMuch { what: &'static str, found: usize, limit: usize },
}

impl From<wasmparser::BinaryReaderError> for Obstacle {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Damaged(error)
    }
}

fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), Obstacle> {
    if found > limit { Err(Obstacle::TooMuch { what, found, limit }) } else { Ok(()) }
}

/// Counts the contents of a binary; stops at the first excess.
pub(crate) fn walk(bytes: &[u8], limits: &Measure) -> Result<Measure, Obstacle> {
    let mut seen = Measure {
        depth: 0,
        modules: 0,
        functions: 0,
        function_bytes: 0,
        locals: 0,
        nesting: 0,
        jumps: 0,
        items: 0,
        sections: 0,
    };
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let mut listed = 0usize;
        let payload = payload?;
        seen.sections += usize::from(payload.as_section().is_some());
        at_most("sections", seen.sections, limits.sections)?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                seen.depth = seen.depth.max(depth);
                seen.modules += 1;
                at_most("components inside components", depth, limits.depth)?;
                at_most("modules and components", seen.modules, limits.modules)?;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionStart { count, .. } => {
                seen.functions = seen.functions.saturating_add(count as usize);
                at_most("functions", seen.functions, limits.functions)?;
            }
            Payload::CodeSectionEntry(body) => function(&body, limits, &mut seen)?,
            Payload::TypeSection(section) => listed = section.count() as usize,
            Payload::ImportSection(section) => listed = section.count() as usize,
            Payload::FunctionSection(section) => listed = section.count() as usize,
            Payload::TableSection(section) => listed = section.count() as usize,
            Payload::MemorySection(section) => listed = section.count() as usize,
            Payload::TagSection(section) => listed = section.count() as usize,
            Payload::GlobalSection(section) => listed = section.count() as usize,
            Payload::ExportSection(section) => listed = section.count() as usize,
            Payload::ElementSection(section) => listed = section.count() as usize,
            Payload::DataSection(section) => listed = section.count() as usize,
            Payload::DataCountSection { count, .. } => listed = count as usize,
            Payload::InstanceSection(section) => listed = section.count() as usize,
            Payload::CoreTypeSection(section) => listed = section.count() as usize,
            Payload::ComponentInstanceSection(section) => listed = section.count() as usize,
            Payload::ComponentAliasSection(section) => listed = section.count() as usize,
            Payload::ComponentTypeSection(section) => listed = section.count() as usize,
            Payload::ComponentCanonicalSection(section) => listed = section.count() as usize,
            Payload::ComponentImportSection(section) => listed = section.count() as usize,
            Payload::ComponentExportSection(section) => listed = section.count() as usize,
            _ => {}
        }
        seen.items = seen.items.saturating_add(listed);
        at_most("types, imports, exports and other items", seen.items, limits.items)?;
    }
    Ok(seen)
}

fn function(body: &FunctionBody<'_>, limits: &Measure, seen: &mut Measure) -> Result<(), Obstacle> {
    let bytes = body.range().len();
    seen.function_bytes = seen.function_bytes.max(bytes);
    at_most("bytes in one function", bytes, limits.function_bytes)?;
    let mut locals = 0usize;
    for group in body.get_locals_reader()? {
        let (count, _) = group?;
        locals = locals.saturating_add(count as usize);
        at_most("variables in one function", locals, limits.locals)?;
    }
    seen.locals = seen.locals.max(locals);
    let (mut depth, mut jumps) = (0usize, 0usize);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        match operators.read()? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                depth += 1;
                seen.nesting = seen.nesting.max(depth);
                at_most("blocks inside blocks", depth, limits.nesting)?;
            }
            Operator::End => depth = depth.saturating_sub(1),
            Operator::BrTable { targets } => {
                jumps = jumps.saturating_add(targets.len() as usize);
                seen.jumps = seen.jumps.max(jumps);
                at_most("targets of jump tables in one function", jumps, limits.jumps)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, what: &str) {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        match walk(&bytes, &LIMITS) {
            Err(Obstacle::TooMuch { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{what}: {other:?}"),
        }
    }

    #[test]
    fn components_beyond_structural_limits_are_rejected() {
        let many = |count: usize, item: &str| item.repeat(count);
        check(&format!("(component (core module {}))", many(100_001, "(func)")), "functions");
        check(
            &format!("(component (core module (func (local {}))))", many(20_001, "i32 ")),
            "variables in one function",
        );
        let deep = format!("(component (core module (func {} {})))", many(5_001, "block "), many(5_001, "end "));
        check(&deep, "blocks inside blocks");
        let table = format!("(func (param i32) block local.get 0 br_table {} end)", many(100_002, "0 "));
        check(&format!("(component (core module {table}))"), "targets of jump tables in one function");
        let long = format!("(func {})", many(700_000, "nop nop nop "));
        check(&format!("(component (core module {long}))"), "bytes in one function");
        check(&format!("{}{}", many(20, "(component "), many(20, ")")), "components inside components");
        check(&format!("(component {})", many(300, "(core module)")), "modules and components");
        check(&format!("(component {})", many(100_001, "(@custom \"x\" \"\")")), "sections");
        check(&format!("(component {})", many(300_001, "(type string)")), "types, imports, exports and other items");
    }
}
