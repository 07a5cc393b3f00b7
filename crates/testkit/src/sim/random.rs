//! A small seeded generator (splitmix64): every choice of a simulated run comes from one, so that a seed is the whole run.

/// Pseudo-random numbers that depend on nothing but the seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that always yields the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. The bias of the remainder does not matter at these sizes.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// An index into something of `len` entries.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index fits")
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A generator of its own, so that what one side draws does not shift what another does.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_whole_sequence() {
        let draw = |seed| {
            (0..8)
                .map({
                    let mut r = Random::new(seed);
                    move |_| r.below(1000)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
