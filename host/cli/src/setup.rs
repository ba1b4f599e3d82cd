//! `clawhost setup`: asks what a gateway serves, and writes its configuration.

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clap::{Args, ValueEnum};
use clawhost_app::connect::KeyName;
use clawhost_app::{
    AppError, ModelKey, ModelSpec, RecordPolicy, RequestError, SetUp, SetupDefaults, SetupRequest, set_up,
    setup_defaults,
};
use serde_json::json;
use std::io::{BufRead, IsTerminal as _, Write};

const HELP: &str = "On a terminal it asks for what no option says; Ctrl-C leaves everything as it was. Without one, what is not said has its default.
It writes gateway.toml in the data folder. Other models, settings and comments in it stay.";

/// Most attempts at one question. Who cannot answer it reads the guide.
const ATTEMPTS: usize = 5;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct SetupArgs {
    /// The model: openai:MODEL@ADDRESS, anthropic:MODEL@ADDRESS (each without @ADDRESS at the provider itself) or local:FOLDER
    #[arg(long, value_name = "SPEC")]
    model: Option<String>,
    /// The name by which clients ask for it [default: the model's]
    #[arg(long, value_name = "ALIAS")]
    alias: Option<String>,
    /// The variable of the environment that has its key
    #[arg(long, value_name = "VARIABLE", conflicts_with_all = ["key_file", "pass_key"])]
    key_env: Option<String>,
    /// The file that has its key
    #[arg(long, value_name = "FILE", conflicts_with = "pass_key")]
    key_file: Option<String>,
    /// Pass the key of the client that asks on to it
    #[arg(long)]
    pass_key: bool,
    /// Where the gateway listens
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// What is recorded of clients without a key
    #[arg(long, value_enum)]
    record: Option<Record>,
    /// Ask nothing
    #[arg(long, short)]
    yes: bool,
}

/// A policy, as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Record {
    /// Everything, to learn from
    All,
    /// Everything, and learning leaves it out
    NoTrain,
    /// Nothing
    Off,
}

impl From<Record> for RecordPolicy {
    fn from(record: Record) -> Self {
        match record {
            Record::All => Self::All,
            Record::NoTrain => Self::NoTrain,
            Record::Off => Self::Off,
        }
    }
}

/// Asks for what is not given.
struct Questions<R, W> {
    asks: bool,
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Questions<R, W> {
    /// An answer: the given one, or what is typed, or the default.
    fn answer<T>(
        &mut self,
        given: Option<&str>,
        (flag, question): (&str, &str),
        default: Option<&str>,
        read: impl Fn(&str) -> Result<T, AppError>,
    ) -> anyhow::Result<T> {
        if let Some(given) = given {
            return Ok(read(given)?);
        }
        if !self.asks {
            let missing = || UsageError(format!("`{question}` has no default; give it with {flag}"));
            return Ok(read(default.ok_or_else(missing)?)?);
        }
        for _ in 0..ATTEMPTS {
            let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
            write!(self.output, "{question}{shown}: ")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                return Err(UsageError("the input ended; nothing was written".to_owned()).into());
            }
            let text = match (line.trim(), default) {
                ("", Some(default)) => default,
                (typed, _) => typed,
            };
            match read(text) {
                Ok(answer) => return Ok(answer),
                Err(error) => writeln!(self.output, "  {error}")?,
            }
        }
        Err(UsageError("no valid answer; nothing was written".to_owned()).into())
    }
}

/// A key as it is typed: `none`, `client`, a file, or a variable.
fn key(text: &str) -> Result<ModelKey, AppError> {
    Ok(match text {
        "none" | "usual" => ModelKey::Usual,
        "client" => ModelKey::OfClient,
        path if path.contains(['/', '\\', '.']) => ModelKey::File(path.to_owned()),
        variable => ModelKey::Variable(variable.parse::<KeyName>()?),
    })
}

fn given_key(arguments: &SetupArgs) -> anyhow::Result<Option<ModelKey>> {
    let variable = arguments.key_env.as_deref().map(str::parse::<KeyName>).transpose().map_err(AppError::from)?;
    let file = arguments.key_file.clone().map(ModelKey::File);
    Ok(variable.map(ModelKey::Variable).or(file).or_else(|| arguments.pass_key.then_some(ModelKey::OfClient)))
}

pub(crate) fn run(context: &Context, arguments: &SetupArgs) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let SetupDefaults { model: known, listen, record } = setup_defaults(&folder)?;
    let asks = !arguments.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut questions = Questions { asks, input: std::io::stdin().lock(), output: crate::terminal::stderr() };
    let (known_model, known_alias) = known.unzip();
    let spec = "Model (openai:MODEL@ADDRESS, anthropic:MODEL or local:FOLDER)";
    let model =
        questions.answer(arguments.model.as_deref(), ("--model", spec), known_model.as_deref(), ModelSpec::of)?;
    let is_known = known_model.is_some_and(|known| ModelSpec::of(&known).is_ok_and(|known| known == model));
    let alias = known_alias.filter(|_| is_known).unwrap_or_else(|| model.alias());
    let text = |text: &str| Ok(text.to_owned());
    let alias = questions.answer(arguments.alias.as_deref(), ("--alias", "Name for clients"), Some(&alias), text)?;
    let key = match given_key(arguments)? {
        Some(key) => key,
        None if !model.is_endpoint() => ModelKey::Usual,
        None => {
            let usual = model.usual_variable().map_or("none", |_| "usual");
            let question = match model.usual_variable() {
                Some(variable) => {
                    format!("Its key (usual: {variable}; another variable; a file; client: the client's own)")
                }
                None => "Its key (none; a variable; a file; client: the client's own)".to_owned(),
            };
            questions.answer(None, ("--key-env", &question), Some(usual), key)?
        }
    };
    let listen = questions.answer(arguments.listen.as_deref(), ("--listen", "Listen on"), Some(&listen), text)?;
    let policy = |text: &str| -> Result<RecordPolicy, AppError> { Ok(text.parse().map_err(RequestError::from)?) };
    let record = match arguments.record {
        Some(record) => record.into(),
        None => questions.answer(
            None,
            ("--record", "Record of clients without a key (all, no-train, off)"),
            Some(record.name()),
            policy,
        )?,
    };
    let request = SetupRequest { model, alias, key, listen, record };
    let SetUp { file, is_reachable } = set_up(&folder, &request)?;
    let missing = request.missing_variable(|name| std::env::var(name).is_ok_and(|value| !value.trim().is_empty()));
    if context.json() {
        let next = if is_reachable { "keys add NAME" } else { "start" };
        crate::terminal::json(
            &json!({"format": 1, "file": file, "alias": request.alias, "next": next, "missing_variable": missing}),
        )?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "wrote {}", file.display())?;
    // Another data folder than the usual one must be named again.
    if let Some(variable) = missing {
        writeln!(out, "first: set {variable} to the model's key; it is not set here")?;
    }
    let data = context.common.data.as_ref().map(|data| format!(" --data {}", data.display())).unwrap_or_default();
    if is_reachable {
        writeln!(out, "next: clawhost keys add NAME{data} (other machines need a key)")?;
        writeln!(out, "then: clawhost start{data}")?;
    } else {
        writeln!(out, "next: clawhost start{data}")?;
        writeln!(out, "then: clawhost connect CLIENT --model {}{data}", request.alias)?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to one question, and what was shown.
    fn asked(typed: &str, default: Option<&str>) -> (Result<String, String>, String) {
        let mut questions = Questions { asks: true, input: typed.as_bytes(), output: Vec::new() };
        let read = |text: &str| Ok(ModelSpec::of(text)?.alias());
        let answer = questions.answer(None, ("--model", "Model"), default, read).map_err(|error| error.to_string());
        (answer, String::from_utf8(questions.output).unwrap())
    }

    #[test]
    fn questions_have_defaults_and_wrong_answers_are_asked_again() {
        assert_eq!(asked("\n", Some("openai:a")), (Ok("a".into()), "Model [openai:a]: ".into()));
        assert_eq!(asked("openai:b\n", Some("openai:a")).0, Ok("b".into()));
        let (answer, shown) = asked("nonsense\nopenai:c\n", None);
        assert_eq!(answer, Ok("c".into()));
        assert!(shown.contains("is not a model") && shown.matches("Model: ").count() == 2, "{shown}");
        assert!(asked("", None).0.unwrap_err().contains("nothing was written"));
        assert!(asked(&"x\n".repeat(9), None).0.unwrap_err().contains("no valid answer"));
    }

    #[test]
    fn what_is_given_is_not_asked_and_without_a_terminal_defaults_count() {
        let mut questions = Questions { asks: false, input: &b"typed\n"[..], output: Vec::new() };
        let text = |text: &str| Ok(text.to_owned());
        assert_eq!(questions.answer(Some("given"), ("--q", "Q"), Some("default"), text).unwrap(), "given");
        assert_eq!(questions.answer(None, ("--q", "Q"), Some("default"), text).unwrap(), "default");
        assert!(
            questions
                .answer(None, ("--q", "Q"), None, text)
                .unwrap_err()
                .to_string()
                .ends_with("`Q` has no default; give it with --q")
        );
        assert!(questions.output.is_empty());
    }

    #[test]
    fn a_key_is_typed_as_a_variable_a_file_or_a_word() {
        let check = |text: &str, expect: ModelKey| assert_eq!(key(text).unwrap(), expect, "{text}");
        check("usual", ModelKey::Usual);
        check("client", ModelKey::OfClient);
        check("./key", ModelKey::File("./key".into()));
        check("A_KEY", ModelKey::Variable("A_KEY".parse().unwrap()));
        assert!(key("not a variable").is_err());
    }
}
