//! Creates tiny models: each character or word is a token, and weights are initialised from a seed.

use crate::folder::ModelFolder;
use crate::generate::Sampling;
use crate::tokens::{TextHost, alphabet_json, words_json};
use crate::{Architecture, LocalModelError, ModelConfig, RotaryScaling, initial};
use clawhost_core::escaped;
use std::collections::BTreeMap;

/// Longest part of a token that a message repeats, in bytes.
const SHOWN_BYTES: usize = 40;

/// The tokens of a tiny model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vocabulary {
    /// Characters, each once. The last one ends an answer.
    Characters(String),
    /// Words and marks, each once. A text with other words can be read: they all are one token. A token of its own ends an answer.
    Words(Vec<String>),
}

impl Vocabulary {
    /// All tokens in the order of their numbers.
    fn tokens(&self) -> Vec<String> {
        match self {
            Self::Characters(characters) => characters.chars().map(String::from).collect(),
            Self::Words(words) => {
                let (unknown, end) = (UNKNOWN.to_owned(), END.to_string());
                std::iter::once(unknown).chain(words.iter().cloned()).chain([end]).collect()
            }
        }
    }

    fn tokenizer(&self, tokens: &[String]) -> String {
        match self {
            Self::Characters(characters) => alphabet_json(&characters.chars().collect::<Vec<_>>()),
            Self::Words(_) => words_json(tokens),
        }
    }
}

/// The settings of a tiny model.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyModel {
    /// Its tokens.
    pub vocabulary: Vocabulary,
    /// Width of the residual stream.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Width inside the MLP. `None`: 8/3 of the width.
    pub mlp_width: Option<usize>,
    /// Number of heads. It divides the width.
    pub heads: usize,
    /// Largest number of characters of a conversation.
    pub context: usize,
    /// Whether its chat template includes system messages. The weights are the same either way.
    pub includes_system_prompt: bool,
    /// The seed of the weights.
    pub seed: u64,
}

impl Default for TinyModel {
    /// 99,456 weights: enough for number games, and small enough to learn in a minute.
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::Characters("0123456789+=<>?#".into()),
            width: 64,
            layers: 2,
            mlp_width: None,
            heads: 4,
            context: 64,
            includes_system_prompt: false,
            seed: 0,
        }
    }
}

/// The end of an answer in models for text: the symbol for "end of transmission", which texts do not contain.
const END: char = '␄';
/// The token of every unknown word.
const UNKNOWN: &str = "<unknown>";

impl TinyModel {
    /// A model that can read and write any plain text: lines of printable ASCII. 104,640 weights, with a context for
    /// text games.
    #[must_use]
    pub fn for_text() -> Self {
        let characters = ['\n'].into_iter().chain(' '..='~').chain([END]).collect();
        Self { vocabulary: Vocabulary::Characters(characters), context: 2048, ..Self::default() }
    }
}

/// Messages without roles, one after the other. The model's messages end with the last character. System messages are
/// omitted.
const TEMPLATE: &str = "{% for message in messages %}{% if message.role != 'system' %}{{ message.content }}\
{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{% endif %}{% endfor %}";
/// The same with system messages, which also end with the last character.
const TEMPLATE_WITH_SYSTEM: &str = "{% for message in messages %}{{ message.content }}\
{% if message.role in ['system', 'assistant'] %}{{ eos_token }}{% endif %}{% endfor %}";

/// The templates that this program writes itself.
pub(crate) const OWN_TEMPLATES: [&str; 2] = [TEMPLATE, TEMPLATE_WITH_SYSTEM];

impl TinyModel {
    /// Creates the model. Equal settings give equal bytes.
    ///
    /// # Errors
    /// A character occurs twice, there are fewer than two, or the heads do not divide the width.
    pub fn make(&self) -> Result<ModelFolder, LocalModelError> {
        let tokens = self.vocabulary.tokens();
        let twice =
            tokens.iter().enumerate().find(|(place, one)| tokens.iter().take(*place).any(|other| other == *one));
        if let Some((_, token)) = twice {
            let shown = escaped(token, SHOWN_BYTES);
            return Err(LocalModelError::Config(format!("the alphabet has '{shown}' twice")));
        }
        let Some(end) = tokens.last().filter(|_| tokens.len() >= 2) else {
            return Err(LocalModelError::Config(
                "an alphabet has two characters or more; the last ends an answer".into(),
            ));
        };
        let sizes = [self.width, self.layers, self.heads, self.context, self.mlp_width.unwrap_or(1)];
        if sizes.contains(&0) || !self.width.is_multiple_of(self.heads * 2) {
            let (width, heads) = (self.width, self.heads);
            return Err(LocalModelError::Config(format!(
                "a width of {width} for {heads} heads; twice the heads must divide it, and no size is 0"
            )));
        }
        let config = ModelConfig {
            architecture: Architecture::Qwen3,
            vocabulary: tokens.len(),
            width: self.width,
            layers: self.layers,
            heads: self.heads,
            key_value_heads: self.heads,
            head_width: self.width / self.heads,
            // SwiGLU has three matrices, plain MLPs two: with 8/3 of the width both cost the same (Shazeer 2020).
            mlp_width: self.mlp_width.unwrap_or(self.width * 8 / 3),
            context: self.context,
            rotary_base: 10_000.0,
            rotary_scaling: RotaryScaling::None,
            norm_epsilon: 1e-6,
            tied: true,
            query_bias: false,
            output_bias: false,
            query_norm: true,
            // Half of the "small init" of Nguyen and Salazar (2019), sqrt(2 / (5 width)). Muon's steps do not scale
            // with the weights, so smaller weights change direction sooner. Sums below 100, 450 steps of rewards: 0.91
            // correct instead of 0.86.
            initial_deviation: (0.1 / self.width as f64).sqrt(),
            end_tokens: vec![tokens.len() as u32 - 1],
        };
        Ok(ModelFolder {
            weights: initial(&config, self.seed),
            config,
            tokenizer_json: self.vocabulary.tokenizer(&tokens),
            template: Some(if self.includes_system_prompt { TEMPLATE_WITH_SYSTEM } else { TEMPLATE }.to_owned()),
            tool_template: None,
            words: BTreeMap::from([("eos_token".to_owned(), end.clone())]),
            sampling: Sampling::default(),
            ignored: Vec::new(),
            arguments: crate::tokens::TemplateArguments::default(),
            texts: TextHost::InProcess,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeDevice;
    use crate::{HostMatrix, LocalModelError, digest};
    use clawhost_core::{Message, Origin, Role};

    #[test]
    fn a_model_from_a_seed_is_written_and_read_back() {
        let made = TinyModel { seed: 7, ..TinyModel::default() }.make().unwrap();
        assert_eq!(made.config.parameters(), 99_456);
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        made.write(one.path()).unwrap();
        let read = ModelFolder::read(one.path(), &TextHost::InProcess).unwrap();
        assert_eq!((&read.config, digest(&read.weights)), (&made.config, digest(&made.weights)));
        assert_eq!((&read.template, &read.words, &read.sampling), (&made.template, &made.words, &made.sampling));
        TinyModel { seed: 7, ..TinyModel::default() }.make().unwrap().write(other.path()).unwrap();
        for name in ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"] {
            let [one, other] = [&one, &other].map(|folder| std::fs::read(folder.path().join(name)).unwrap());
            assert!(one == other, "{name} differs");
        }
    }

    #[test]
    fn a_template_may_include_the_system_prompt() {
        let said = |role, text| Message::text(role, Origin::User, text);
        let talk = [said(Role::System, "12"), said(Role::User, "3"), said(Role::Assistant, "4"), said(Role::User, "5")];
        let check = |includes_system_prompt, expect: &str| {
            let made = TinyModel { includes_system_prompt, ..TinyModel::default() }.make().unwrap();
            let template = made.texts().unwrap().template.unwrap();
            assert_eq!(template.render(&talk, &[], &crate::tokens::TemplateArguments::default()).unwrap(), expect);
        };
        check(false, "34#5");
        check(true, "12#34#5");
    }

    #[test]
    fn a_model_for_text_knows_every_character_of_plain_text() {
        let made = TinyModel::for_text().make().unwrap();
        assert_eq!(made.config.parameters(), 104_640);
        let tokenizer = made.texts().unwrap().tokenizer;
        let said = "I picked a number.\nReply with a whole number between 0 and 99: {\"~\"}";
        assert_eq!(tokenizer.decode(&tokenizer.encode(said).unwrap(), true).unwrap(), said);
        assert_eq!(tokenizer.size(), 97);
    }

    #[test]
    fn a_model_larger_than_memory_is_refused_before_its_weights_are_read() {
        let folder = tempfile::tempdir().unwrap();
        TinyModel::default().make().unwrap().write(folder.path()).unwrap();
        let path = folder.path().join("config.json");
        let mut config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        config["num_hidden_layers"] = 100.into();
        config["intermediate_size"] = (1 << 24).into();
        std::fs::write(&path, config.to_string()).unwrap();
        let error = ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap_err().to_string();
        #[cfg(target_os = "linux")]
        assert!(
            error.starts_with("the model needs 1200.0 GiB of memory, and ")
                && error.contains(" GiB are free; use a smaller model"),
            "{error}"
        );
    }

    #[test]
    fn unsupported_sampling_settings_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        TinyModel::default().make().unwrap().write(folder.path()).unwrap();
        let told = r#"{"do_sample": true, "repetition_penalty": 1.05, "num_beams": 1, "no_repeat_ngram_size": 3, "temperature": 0.5}"#;
        std::fs::write(folder.path().join("generation_config.json"), told).unwrap();
        let read = ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap();
        assert_eq!(read.ignored, ["no_repeat_ngram_size 3"]);
        assert_eq!(read.sampling.temperature, 0.5);
    }

    #[test]
    fn invalid_settings_of_a_model_are_refused() {
        let check = |tiny: TinyModel, expect: &str| {
            let error = tiny.make().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(TinyModel { vocabulary: Vocabulary::Characters("abca".into()), ..TinyModel::default() }, "'a' twice");
        check(TinyModel { vocabulary: Vocabulary::Characters("a".into()), ..TinyModel::default() }, "two characters");
        check(TinyModel { heads: 3, ..TinyModel::default() }, "width of 64 for 3 heads");
        check(TinyModel { layers: 0, ..TinyModel::default() }, "no size is 0");
    }

    #[test]
    fn a_model_without_a_template_cannot_hold_a_conversation() {
        let folder = tempfile::tempdir().unwrap();
        TinyModel::default().make().unwrap().write(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
        let read = ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap();
        let error = read.open("tiny", &ComputeDevice::processor()).unwrap_err().to_string();
        assert!(error.contains("neither chat_template.jinja nor tokenizer_config.json has one; put a"), "{error}");
        assert!(read.texts().is_ok() && read.engine(&ComputeDevice::processor()).is_ok());
    }

    #[test]
    fn damaged_folders_are_refused_by_name() {
        let made = TinyModel::default().make().unwrap();
        let check = |damage: &dyn Fn(&std::path::Path), expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            made.write(folder.path()).unwrap();
            damage(folder.path());
            let error = ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
            error
        };
        let file = |name: &'static str, bytes: &'static [u8]| {
            move |folder: &std::path::Path| std::fs::write(folder.join(name), bytes).unwrap()
        };
        check(&|folder| std::fs::remove_file(folder.join("model.safetensors")).unwrap(), "no weights (*.safetensors)");
        check(
            &|folder| {
                let path = folder.join("model.safetensors");
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            },
            "is the download complete?",
        );
        check(&file("config.json", br#"{"model_type": "mamba"}"#), "model_type is `mamba`");
        let wider = |folder: &std::path::Path| {
            let text = made.config.to_json().replace("\"intermediate_size\": 170", "\"intermediate_size\": 171");
            std::fs::write(folder.join("config.json"), text).unwrap();
        };
        let error = check(&wider, "gate_proj");
        assert!(matches!(error, LocalModelError::Shape { .. }), "{error}");
        let deeper = |folder: &std::path::Path| {
            let text = made.config.to_json().replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
            std::fs::write(folder.join("config.json"), text).unwrap();
        };
        check(&deeper, "model.layers.2.input_layernorm.weight is in no file");
        let deep = |folder: &std::path::Path| {
            let text = made.config.to_json().replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4000000");
            std::fs::write(folder.join("config.json"), text).unwrap();
        };
        check(&deep, "num_hidden_layers is 4000000; expected a whole number from 1 to 2048");
        let untied = |folder: &std::path::Path| {
            let text = made.config.to_json().replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
            std::fs::write(folder.join("config.json"), text).unwrap();
        };
        check(&untied, "the weight model.layers.1.input_layernorm.weight does not occur in the model");
        let index: &[u8] = br#"{"weight_map": {"a": "../../secret.safetensors"}}"#;
        check(
            &|folder| std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap(),
            "a shard is called",
        );
    }

    #[test]
    fn a_tied_model_with_another_head_is_refused() {
        let check = |change: f32, refused: bool| {
            let folder = tempfile::tempdir().unwrap();
            let mut made = TinyModel::default().make().unwrap();
            let mut head = made.weights.embedding.clone();
            let values = head.values().iter().map(|value| value + change).collect();
            head = HostMatrix::new("head", head.shape, values).unwrap();
            made.weights.head = Some(head);
            made.write(folder.path()).unwrap();
            let read = ModelFolder::read(folder.path(), &TextHost::InProcess);
            assert_eq!(matches!(read, Err(LocalModelError::TwoHeads)), refused, "{change}");
        };
        check(0.0, false);
        check(0.001, true);
    }

    #[test]
    fn words_are_tokens_and_unknown_ones_share_one() {
        let words = ["when", "is", "gold", ":", "offer_credit"].map(String::from).to_vec();
        let made = TinyModel { vocabulary: Vocabulary::Words(words), ..TinyModel::default() }.make().unwrap();
        assert_eq!(made.config.vocabulary, 7);
        let place = tempfile::tempdir().unwrap();
        made.write(place.path()).unwrap();
        let read = ModelFolder::read(place.path(), &TextHost::InProcess).unwrap();
        let tokenizer = read.texts().unwrap().tokenizer;
        let check = |text: &str, tokens: &[u32]| assert_eq!(tokenizer.encode(text).unwrap(), tokens, "{text}");
        check("when gold is  gold:\noffer_credit", &[1, 3, 2, 3, 4, 5]);
        check("silver gold", &[0, 3]);
        check("gold\u{2404}", &[3, 6]);
        assert_eq!(tokenizer.decode(&[5], true).unwrap(), "offer_credit");
        let twice = Vocabulary::Words(vec!["a".into(), "a".into()]);
        let error = TinyModel { vocabulary: twice, ..TinyModel::default() }.make().unwrap_err().to_string();
        assert!(error.contains("'a' twice"), "{error}");
    }
}
