//! Measures a component before it is compiled.
//!
//! Compilers are made for programs that people write. A file of a few megabytes can contain a million functions, a function
//! with fifty thousand variables, or blocks nested a hundred thousand deep, and take minutes and gigabytes to compile. The
//! walk counts what the binary contains, without compiling or validating it, and rejects what no toolchain produces.
//! What remains is estimated ([`Cost`]). Whatever the estimate misses is stopped by the limits of the compiling process.

use crate::cost::Cost;
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
    /// Nesting depth of loops.
    pub(crate) loops: usize,
    /// Estimated cost of compiling the most expensive function ([`Cost`]).
    pub(crate) function_cost: usize,
    /// The same of all functions.
    pub(crate) cost: usize,
}

/// The costs are those of about 20 s of processor time: an SDK guest of 360 KB costs 0.12 million, and a QuickJS 0.44 million. The others are five to
/// twenty times the counts of the largest known components: a CPython with its library (13,367 functions, the
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
    loops: 100,
    function_cost: 1_000_000,
    cost: 4_000_000,
};

/// The same for components that contain an interpreter, which the operator allows: the CPython costs 4.4 million, and its most expensive function
/// 0.8 million; a StarlingMonkey costs about four times as much.
pub(crate) const INTERPRETER_LIMITS: Measure = Measure { function_cost: 8_000_000, cost: 36_000_000, ..LIMITS };

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
        loops: 0,
        function_cost: 0,
        cost: 0,
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
    let mut cost = Cost::default();
    // For each open block, whether it is a loop.
    let mut blocks: Vec<bool> = Vec::new();
    let (mut loops, mut jumps) = (0usize, 0usize);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let operator = operators.read()?;
        cost.take(&operator);
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                let is_loop = matches!(operator, Operator::Loop { .. });
                blocks.push(is_loop);
                loops += usize::from(is_loop);
                seen.nesting = seen.nesting.max(blocks.len());
                seen.loops = seen.loops.max(loops);
                at_most("blocks inside blocks", blocks.len(), limits.nesting)?;
                at_most("loops inside loops", loops, limits.loops)?;
            }
            Operator::End => loops -= usize::from(blocks.pop().unwrap_or(false)),
            Operator::BrTable { targets } => {
                jumps = jumps.saturating_add(targets.len() as usize);
                seen.jumps = seen.jumps.max(jumps);
                at_most("targets of jump tables in one function", jumps, limits.jumps)?;
            }
            _ => {}
        }
    }
    let cost = cost.of_function();
    seen.function_cost = seen.function_cost.max(cost);
    seen.cost = seen.cost.saturating_add(cost);
    at_most("units of estimated compile cost in one function", seen.function_cost, limits.function_cost)?;
    at_most("units of estimated compile cost", seen.cost, limits.cost)
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
        let loops = format!("(component (core module (func {} {})))", many(101, "loop "), many(101, "end "));
        check(&loops, "loops inside loops");
        check(&format!("{}{}", many(20, "(component "), many(20, ")")), "components inside components");
        check(&format!("(component {})", many(300, "(core module)")), "modules and components");
        check(&format!("(component {})", many(100_001, "(@custom \"x\" \"\")")), "sections");
        check(&format!("(component {})", many(300_001, "(type string)")), "types, imports, exports and other items");
    }

    /// Each of these took 16 to 35 s in one or a few functions, and is far below the limits on counts.
    #[test]
    fn the_cost_of_compiling_is_known_before() {
        let many = |count: usize, item: &str| item.repeat(count);
        let one = "units of estimated compile cost in one function";
        let load = "local.get 0 i32.load offset=4 local.get 0 i32.add local.set 0 ";
        check(&format!("(component (core module (memory 1) (func (param i32) {})))", many(50_000, load)), one);
        let divide = "local.get 0 i64.rem_s local.get 0 i64.div_s ";
        check(&format!("(component (core module (func (param i64) local.get 0 {} drop)))", many(20_000, divide)), one);
        let step = |number: usize| {
            let of = |factor: usize| number * factor % 60;
            let (a, b, c, d, e) = (of(1), of(7), of(11), of(5), of(3));
            format!(
                "local.get {a} local.get {b} i32.div_u local.get {c} if local.get {a} i32.load local.set {d} end local.set {e} "
            )
        };
        let body: String = (0..400).map(step).collect();
        let function = format!("(func (param {}) {body})", many(60, "i32 "));
        let bomb = |functions| format!("(component (core module (memory 1) {}))", many(functions, &function));
        check(&bomb(500), "units of estimated compile cost");
        let small = wat::parse_str(bomb(100)).unwrap();
        let cost = walk(&small, &LIMITS).unwrap().cost;
        assert_eq!(cost, walk(&small, &INTERPRETER_LIMITS).unwrap().cost, "it depends on the bytes alone");
        assert!((800_000..1_200_000).contains(&cost), "{cost}");
        assert!(walk(&wat::parse_str(bomb(500)).unwrap(), &INTERPRETER_LIMITS).is_ok());
    }
}
