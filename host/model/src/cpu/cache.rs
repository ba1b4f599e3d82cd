//! What attention remembers of one sequence.

/// Keys and values of one sequence, layer by layer, in one piece of memory that grows by doubling.
#[derive(Debug, Clone)]
pub struct Cache {
    /// The tokens that were computed.
    pub(crate) tokens: Vec<u32>,
    pub(super) layers: Vec<LayerCache>,
}

/// Of one layer: for every key and value head a block of each.
#[derive(Debug, Clone, Default)]
pub(super) struct LayerCache {
    /// `[heads, head_width, capacity]`: positions lie side by side, so that scores of many run in vectors.
    pub(super) keys: Vec<f32>,
    /// `[heads, capacity, head_width]`.
    pub(super) values: Vec<f32>,
}

/// Positions a cache begins with.
const FIRST: usize = 64;

impl Cache {
    /// An empty one, for a model of so many layers.
    pub fn new(layers: usize) -> Self {
        Self { tokens: Vec::new(), layers: vec![LayerCache::default(); layers] }
    }

    /// The tokens it holds.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Forgets all but the first tokens. What lies behind them is written over.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
    }

    /// How many of these tokens it knows, from the first on.
    pub fn shared_with(&self, tokens: &[u32]) -> usize {
        self.tokens.iter().zip(tokens).take_while(|(mine, theirs)| mine == theirs).count()
    }

    /// Positions that fit into a cache that holds so many.
    pub(super) fn capacity(length: usize) -> usize {
        length.next_power_of_two().max(FIRST)
    }
}

impl LayerCache {
    /// Makes room for `capacity` positions of `heads` heads of `width`, keeping the first `length`.
    pub(super) fn grow(&mut self, (heads, width): (usize, usize), capacity: usize, length: usize) {
        let was = self.values.len() / (heads * width).max(1);
        if was >= capacity {
            return;
        }
        let mut keys = vec![0.0; heads * width * capacity];
        let mut values = vec![0.0; heads * width * capacity];
        for (to, from) in keys.chunks_exact_mut(capacity).zip(self.keys.chunks_exact(was.max(1))) {
            to.iter_mut().zip(from).take(length).for_each(|(to, from)| *to = *from);
        }
        for (to, from) in values.chunks_exact_mut(capacity * width).zip(self.values.chunks_exact((was * width).max(1)))
        {
            to.iter_mut().zip(from).take(length * width).for_each(|(to, from)| *to = *from);
        }
        (self.keys, self.values) = (keys, values);
    }
}

impl Cache {
    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let floats: usize = self.layers.iter().map(|layer| layer.keys.len() + layer.values.len()).sum();
        floats * size_of::<f32>() + self.tokens.len() * size_of::<u32>()
    }
}
