//! The templates of new plugins: what is the same in every language, and the sources of each.

use clawhost_package::{Kind, Language};

/// What a new plugin begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// An environment of text, with a reward beside it.
    Environment,
    /// An environment with tools, tasks and artefacts, with a reward beside it.
    EnvironmentTools,
    /// A reward that compares with a reference.
    Reward,
    /// A reward that asks a model.
    RewardJudge,
    /// A reflector.
    Reflector,
}

impl Template {
    /// All templates.
    pub const ALL: [Self; 5] =
        [Self::Environment, Self::EnvironmentTools, Self::Reward, Self::RewardJudge, Self::Reflector];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::EnvironmentTools => "environment-tools",
            Self::Reward => "reward",
            Self::RewardJudge => "reward-judge",
            Self::Reflector => "reflector",
        }
    }

    /// The kind of plugin.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Environment | Self::EnvironmentTools => Kind::Environment,
            Self::Reward | Self::RewardJudge => Kind::Reward,
            Self::Reflector => Kind::Reflector,
        }
    }

    /// One line for people.
    pub(crate) const fn summary(self) -> &'static str {
        match self {
            Self::Environment => "how many steps a tower has",
            Self::EnvironmentTools => "pack what an order asks for, with tools",
            Self::Reward => "1 if the last answer is the reference",
            Self::RewardJudge => "what a model thinks of the last answer, from 0 to 1",
            Self::Reflector => "proposes lessons from what the environment says at the end",
        }
    }
}

/// A file of a template: its path in the new folder, and its text, in which words such as `{{name}}` are replaced.
pub(crate) type TemplateFile = (&'static str, &'static str);

/// The files of a template, by their paths in the new folder.
macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../templates/", $folder, "/", $path)))),+]
    };
}

/// What a template has in every language: the manifest, and cases, which the same behaviour passes in any language.
const fn shared(template: Template) -> &'static [TemplateFile] {
    match template {
        Template::Environment => files!("kinds/environment": "claw.toml", "tests/answers.toml", "reward/claw.toml"),
        Template::EnvironmentTools => files!("kinds/environment-tools":
            "claw.toml", "rules.txt", "tests/orders.toml", "reward/claw.toml"),
        Template::Reward => files!("kinds/reward": "claw.toml", "tests/answers.toml"),
        Template::RewardJudge => files!("kinds/reward-judge": "claw.toml", "tests/marks.toml"),
        Template::Reflector => files!("kinds/reflector": "claw.toml", "tests/lessons.toml"),
    }
}

/// The sources in a language. `None`: there is no such template in it.
const fn of_language(template: Template, language: Language) -> Option<&'static [TemplateFile]> {
    Some(match (language, template) {
        (Language::Rust, Template::Environment) => files!("rust/environment":
            "Cargo.toml", "src/lib.rs", "reward/Cargo.toml", "reward/src/lib.rs"),
        (Language::Rust, Template::EnvironmentTools) => files!("rust/environment-tools":
            "Cargo.toml", "src/lib.rs", "reward/Cargo.toml", "reward/src/lib.rs"),
        (Language::Rust, Template::Reward) => files!("rust/reward": "Cargo.toml", "src/lib.rs"),
        (Language::Rust, Template::RewardJudge) => files!("rust/reward-judge": "Cargo.toml", "src/lib.rs"),
        (Language::Rust, Template::Reflector) => files!("rust/reflector": "Cargo.toml", "src/lib.rs"),
        (Language::Python, Template::Environment) => {
            files!("python/environment": "src/plugin.py", "reward/src/plugin.py")
        }
        (Language::Python, Template::EnvironmentTools) => files!("python/environment-tools":
            "src/plugin.py", "reward/src/plugin.py"),
        (Language::Python, Template::Reward) => files!("python/reward": "src/plugin.py"),
        (Language::Python, Template::RewardJudge) => files!("python/reward-judge": "src/plugin.py"),
        (Language::Python, Template::Reflector) => files!("python/reflector": "src/plugin.py"),
        (Language::Js, Template::Environment) => files!("js/environment": "src/plugin.js", "reward/src/plugin.js"),
        (Language::Js, Template::EnvironmentTools) => files!("js/environment-tools":
            "src/plugin.js", "reward/src/plugin.js"),
        (Language::Js, Template::Reward) => files!("js/reward": "src/plugin.js"),
        (Language::Js, Template::RewardJudge) => files!("js/reward-judge": "src/plugin.js"),
        (Language::Js, Template::Reflector) => files!("js/reflector": "src/plugin.js"),
        (Language::C, Template::Environment) => files!("c/environment": "src/plugin.c", "reward/src/plugin.c"),
        (Language::C, Template::Reward) => files!("c/reward": "src/plugin.c"),
        // These need tools, models or lists of texts, for which C has no layer.
        (Language::C, Template::EnvironmentTools | Template::RewardJudge | Template::Reflector) => return None,
    })
}

/// The files that have a template's own words. `None`: there is no such template in this language.
pub(crate) fn sources(template: Template, language: Language) -> Option<Vec<TemplateFile>> {
    Some([shared(template), of_language(template, language)?].concat())
}

/// The files that all templates have.
pub(crate) fn common(template: Template, language: Language) -> [TemplateFile; 4] {
    let readme = match (template.kind(), language) {
        (Kind::Environment, Language::Rust) => include_str!("../templates/common/README.environment.md"),
        (_, Language::Rust) => include_str!("../templates/common/README.plugin.md"),
        (Kind::Environment, _) => include_str!("../templates/common/README.environment.other.md"),
        _ => include_str!("../templates/common/README.plugin.other.md"),
    };
    let ci = match language {
        Language::Rust => include_str!("../templates/common/ci.yml"),
        _ => include_str!("../templates/common/ci.other.yml"),
    };
    [
        ("README.md", readme),
        ("AGENTS.md", include_str!("../templates/common/AGENTS.md")),
        (".gitignore", include_str!("../templates/common/gitignore")),
        (".github/workflows/plugin.yml", ci),
    ]
}
