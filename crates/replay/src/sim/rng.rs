//! A seeded random number generator: xoshiro256++ (Blackman and Vigna, 2018), seeded by splitmix64.

/// The same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let mut next = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mixed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let state = [next(), next(), next(), next()];
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[0]
            .wrapping_add(state[3])
            .rotate_left(23)
            .wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Uniform in 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability >= 1.0 || (probability > 0.0 && self.unit() < probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_uniform_and_repeatable() {
        let (mut one, mut other) = (Rng::new(7), Rng::new(7));
        let mut sum = 0.0;
        let mut low = 0;
        for _ in 0..100_000 {
            let value = one.unit();
            assert_eq!(value, other.unit());
            sum += value;
            low += u32::from(value < 0.1);
        }
        assert!((sum / 100_000.0 - 0.5).abs() < 0.01);
        assert!((9_500..10_500).contains(&low));
        assert_ne!(Rng::new(1).unit(), Rng::new(2).unit());
    }

    #[test]
    fn certain_and_impossible_chances_need_no_luck() {
        let mut rng = Rng::new(1);
        assert!((0..100).all(|_| rng.chance(1.0)));
        assert!((0..100).all(|_| !rng.chance(0.0)));
    }
}
