//! The decoder as a tree of named weights. A weight can be a shape, values on the host, a tensor on a device, panels in
//! the processor's reading order, or a gradient.
//!
//! ```text
//! tokens ─▶ embedding ─▶ [ norm ─▶ q k v ─▶ attention ─▶ o ─┬─▶ norm ─▶ gate·up ─▶ down ─┬─▶ ] x blocks ─▶ norm ─▶ head
//!                      └──────────────────────────────────▶+┘└───────────────────────────▶+┘
//! ```
//!
//! Names are Hugging Face's. A matrix has the shape `[out, in]`, as in its files.

use crate::ModelConfig;

/// Two thin matrices beside a projection (LoRA, Hu et al. 2021): `y += scale · x Aᵀ Bᵀ`.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank<M> {
    /// `[rank, in]`.
    pub a: M,
    /// `[out, rank]`.
    pub b: M,
    /// Alpha over rank.
    pub scale: f64,
}

/// `y = x Wᵀ + b`.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection<M, V> {
    /// `[out, in]`.
    pub weight: M,
    /// `[out]`.
    pub bias: Option<V>,
    /// The adapter that is trained in its place.
    pub adapter: Option<LowRank<M>>,
}

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<M, V> {
    /// Before the attention, `[width]`.
    pub input_norm: V,
    /// `[heads · head_width, width]`.
    pub query: Projection<M, V>,
    /// `[key_value_heads · head_width, width]`.
    pub key: Projection<M, V>,
    /// `[key_value_heads · head_width, width]`.
    pub value: Projection<M, V>,
    /// `[width, heads · head_width]`.
    pub output: Projection<M, V>,
    /// `[head_width]`.
    pub query_norm: Option<V>,
    /// `[head_width]`.
    pub key_norm: Option<V>,
    /// Before the MLP, `[width]`.
    pub post_norm: V,
    /// `[mlp_width, width]`.
    pub gate: Projection<M, V>,
    /// `[mlp_width, width]`.
    pub up: Projection<M, V>,
    /// `[width, mlp_width]`.
    pub down: Projection<M, V>,
}

/// A whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder<M, V> {
    /// `[vocabulary, width]`.
    pub embedding: M,
    /// In order.
    pub blocks: Vec<Block<M, V>>,
    /// Before the head, `[width]`.
    pub norm: V,
    /// `[vocabulary, width]`. `None`: the head is the embedding.
    pub head: Option<M>,
}

/// Converts each weight to another kind, by name.
pub trait Convert<M, V> {
    /// The converted matrix.
    type Matrix;
    /// The converted vector.
    type Vector;
    /// The error of a conversion.
    type Error;

    /// # Errors
    /// The matrix cannot be converted.
    fn matrix(&mut self, name: &str, matrix: &M) -> Result<Self::Matrix, Self::Error>;
    /// # Errors
    /// The vector cannot be converted.
    fn vector(&mut self, name: &str, vector: &V) -> Result<Self::Vector, Self::Error>;
}

/// A weight: a matrix or a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weight<M, V> {
    /// Two dimensions.
    Matrix(M),
    /// One dimension.
    Vector(V),
}

impl Decoder<[usize; 2], usize> {
    /// The shapes of a model without adapters.
    pub fn blueprint(config: &ModelConfig) -> Self {
        let (width, head) = (config.width, config.head_width);
        let (queries, keys) = (config.heads * head, config.key_value_heads * head);
        let projection = |out: usize, input: usize, bias: bool| Projection {
            weight: [out, input],
            bias: bias.then_some(out),
            adapter: None,
        };
        let block = Block {
            input_norm: width,
            query: projection(queries, width, config.query_bias),
            key: projection(keys, width, config.query_bias),
            value: projection(keys, width, config.query_bias),
            output: projection(width, queries, config.output_bias),
            query_norm: config.query_norm.then_some(head),
            key_norm: config.query_norm.then_some(head),
            post_norm: width,
            gate: projection(config.mlp_width, width, false),
            up: projection(config.mlp_width, width, false),
            down: projection(width, config.mlp_width, false),
        };
        Self {
            embedding: [config.vocabulary, width],
            blocks: vec![block; config.layers],
            norm: width,
            head: (!config.tied).then_some([config.vocabulary, width]),
        }
    }
}

impl<M, V> Projection<M, V> {
    fn convert<C: Convert<M, V>>(&self, name: &str, by: &mut C) -> Result<Projection<C::Matrix, C::Vector>, C::Error> {
        let weight = by.matrix(&format!("{name}.weight"), &self.weight)?;
        let bias = self.bias.as_ref().map(|bias| by.vector(&format!("{name}.bias"), bias)).transpose()?;
        let adapter = match &self.adapter {
            None => None,
            Some(LowRank { a, b, scale }) => Some(LowRank {
                a: by.matrix(&format!("{name}.lora_A.weight"), a)?,
                b: by.matrix(&format!("{name}.lora_B.weight"), b)?,
                scale: *scale,
            }),
        };
        Ok(Projection { weight, bias, adapter })
    }
}

impl<M, V> Block<M, V> {
    fn convert<C: Convert<M, V>>(&self, name: &str, by: &mut C) -> Result<Block<C::Matrix, C::Vector>, C::Error> {
        let attention = |part: &str| format!("{name}.self_attn.{part}");
        let mlp = |part: &str| format!("{name}.mlp.{part}");
        let normalise = |by: &mut C, part: &str, norm: &Option<V>| {
            norm.as_ref().map(|norm| by.vector(&attention(&format!("{part}.weight")), norm)).transpose()
        };
        Ok(Block {
            input_norm: by.vector(&format!("{name}.input_layernorm.weight"), &self.input_norm)?,
            query: self.query.convert(&attention("q_proj"), by)?,
            key: self.key.convert(&attention("k_proj"), by)?,
            value: self.value.convert(&attention("v_proj"), by)?,
            output: self.output.convert(&attention("o_proj"), by)?,
            query_norm: normalise(by, "q_norm", &self.query_norm)?,
            key_norm: normalise(by, "k_norm", &self.key_norm)?,
            post_norm: by.vector(&format!("{name}.post_attention_layernorm.weight"), &self.post_norm)?,
            gate: self.gate.convert(&mlp("gate_proj"), by)?,
            up: self.up.convert(&mlp("up_proj"), by)?,
            down: self.down.convert(&mlp("down_proj"), by)?,
        })
    }

    /// Its projections with the short names of PEFT's `target_modules`.
    pub fn projections(&self) -> [(&'static str, &Projection<M, V>); 7] {
        [
            ("q_proj", &self.query),
            ("k_proj", &self.key),
            ("v_proj", &self.value),
            ("o_proj", &self.output),
            ("gate_proj", &self.gate),
            ("up_proj", &self.up),
            ("down_proj", &self.down),
        ]
    }

    /// The same, mutable.
    pub fn projections_mut(&mut self) -> [(&'static str, &mut Projection<M, V>); 7] {
        [
            ("q_proj", &mut self.query),
            ("k_proj", &mut self.key),
            ("v_proj", &mut self.value),
            ("o_proj", &mut self.output),
            ("gate_proj", &mut self.gate),
            ("up_proj", &mut self.up),
            ("down_proj", &mut self.down),
        ]
    }
}

impl<T> Projection<T, T> {
    fn flat(&self) -> impl Iterator<Item = &T> {
        let adapter = self.adapter.iter().flat_map(|adapter| [&adapter.a, &adapter.b]);
        std::iter::once(&self.weight).chain(&self.bias).chain(adapter)
    }

    fn flat_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let adapter = self.adapter.iter_mut().flat_map(|adapter| [&mut adapter.a, &mut adapter.b]);
        std::iter::once(&mut self.weight).chain(&mut self.bias).chain(adapter)
    }
}

impl<T> Block<T, T> {
    /// All weights, in the order of [`Decoder::convert`].
    pub fn flat(&self) -> Vec<&T> {
        let mut all = vec![&self.input_norm];
        [&self.query, &self.key, &self.value, &self.output].into_iter().for_each(|one| all.extend(one.flat()));
        all.extend(&self.query_norm);
        all.extend(&self.key_norm);
        all.push(&self.post_norm);
        [&self.gate, &self.up, &self.down].into_iter().for_each(|one| all.extend(one.flat()));
        all
    }

    fn flat_mut(&mut self) -> Vec<&mut T> {
        let mut all = vec![&mut self.input_norm];
        let attention = [&mut self.query, &mut self.key, &mut self.value, &mut self.output];
        attention.into_iter().for_each(|one| all.extend(one.flat_mut()));
        all.extend(&mut self.query_norm);
        all.extend(&mut self.key_norm);
        all.push(&mut self.post_norm);
        [&mut self.gate, &mut self.up, &mut self.down].into_iter().for_each(|one| all.extend(one.flat_mut()));
        all
    }
}

impl<T> Decoder<T, T> {
    /// All weights, in the order of [`Decoder::convert`].
    pub fn flat(&self) -> Vec<&T> {
        let mut all = vec![&self.embedding];
        self.blocks.iter().for_each(|block| all.extend(block.flat()));
        all.push(&self.norm);
        all.extend(&self.head);
        all
    }

    /// The same, mutable.
    pub fn flat_mut(&mut self) -> Vec<&mut T> {
        let mut all = vec![&mut self.embedding];
        self.blocks.iter_mut().for_each(|block| all.extend(block.flat_mut()));
        all.push(&mut self.norm);
        all.extend(&mut self.head);
        all
    }
}

impl<M, V> Decoder<M, V> {
    /// Converts the model weight by weight, in a fixed order.
    ///
    /// # Errors
    /// A weight could not be converted.
    pub fn convert<C: Convert<M, V>>(&self, by: &mut C) -> Result<Decoder<C::Matrix, C::Vector>, C::Error> {
        Ok(Decoder {
            embedding: by.matrix("model.embed_tokens.weight", &self.embedding)?,
            blocks: (0..)
                .zip(&self.blocks)
                .map(|(number, block): (usize, _)| block.convert(&format!("model.layers.{number}"), by))
                .collect::<Result<_, _>>()?,
            norm: by.vector("model.norm.weight", &self.norm)?,
            head: self.head.as_ref().map(|head| by.matrix("lm_head.weight", head)).transpose()?,
        })
    }

    /// [`Decoder::convert`] for conversions that cannot fail.
    pub fn map<N, W>(
        &self,
        matrix: &mut dyn FnMut(&str, &M) -> N,
        vector: &mut dyn FnMut(&str, &V) -> W,
    ) -> Decoder<N, W> {
        struct Both<'a, M, V, N, W>(&'a mut dyn FnMut(&str, &M) -> N, &'a mut dyn FnMut(&str, &V) -> W);
        impl<M, V, N, W> Convert<M, V> for Both<'_, M, V, N, W> {
            type Matrix = N;
            type Vector = W;
            type Error = std::convert::Infallible;

            fn matrix(&mut self, name: &str, matrix: &M) -> Result<N, Self::Error> {
                Ok((self.0)(name, matrix))
            }

            fn vector(&mut self, name: &str, vector: &V) -> Result<W, Self::Error> {
                Ok((self.1)(name, vector))
            }
        }
        match self.convert(&mut Both(matrix, vector)) {
            Ok(decoder) => decoder,
            Err(never) => match never {},
        }
    }

    /// All weights with their names, in the order of [`Decoder::convert`].
    pub fn weights(&self) -> Vec<(String, Weight<M, V>)>
    where
        M: Clone,
        V: Clone,
    {
        let weights = std::cell::RefCell::new(Vec::new());
        let note = |name: &str, weight| weights.borrow_mut().push((name.to_owned(), weight));
        let _: Decoder<(), ()> = self
            .map(&mut |name, matrix| note(name, Weight::Matrix(matrix.clone())), &mut |name, vector| {
                note(name, Weight::Vector(vector.clone()))
            });
        weights.into_inner()
    }
}

/// Whether this is the name of an adapter's weight.
pub fn is_adapter(name: &str) -> bool {
    name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight")
}
