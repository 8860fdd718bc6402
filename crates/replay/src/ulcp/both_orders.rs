//! Benign pairs by executing both orders (PerfPlay, CGO'15, section 3.2).

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::{BenignOracle, Order, StaticRules};
use crate::reexecution::{compare, observe, Code, Decoded, Observed, Outcome};
use crate::sets::{Access, ClassIx, SampleIx, SectionSets};

/// Sections of one kind that are executed again, at most.
const MAX_OF_KIND: usize = 16;
/// Pairs of two kinds that are tried, at most.
const MAX_PAIRS: usize = 24;
/// Instructions that all re-executions may take together: some seconds.
const MAX_INSTRUCTIONS: u64 = 100_000_000;
/// Executions that trying a pair takes: two orders, from the memory that each of the two found.
const EXECUTIONS_OF_PAIR: u64 = 4;

/// Sections of one acquire site that ran the same code: the blocks that they executed, however
/// often.
type Kind = (ClassIx, u64);

/// Index into [`BothOrders::kinds`].
type KindIx = u32;

/// Decides by [`StaticRules`], and where those do not know by executing sampled pairs in both
/// orders.
///
/// Pairs of the same kinds (same acquire sites, same code executed) get one answer, from a bounded
/// number of them. The order of two kinds is irrelevant if every pair that was tried says so; it
/// matters if one says so; a section or pair that cannot be executed again leaves it unknown.
pub struct BothOrders<'a> {
    sets: &'a SectionSets,
    code: Decoded<'a>,
    /// By sample.
    kind_of: Vec<Option<KindIx>>,
    /// By kind: sections that were observed with their values.
    kinds: Vec<Vec<SampleIx>>,
    answers: RefCell<FxHashMap<(KindIx, KindIx), Order>>,
    tried: Cell<Tried>,
    spent: Cell<u64>,
}

/// Pairs that were executed in both orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// The order changes nothing.
    pub same: u64,
    /// It changes the result.
    pub differs: u64,
    /// They could not be executed: instructions or values that are not known.
    pub unknown: u64,
}

impl std::fmt::Debug for BothOrders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BothOrders")
            .field("tried", &self.tried.get())
            .finish_non_exhaustive()
    }
}

impl<'a> BothOrders<'a> {
    /// For these sets; `code` gives the program's code in the run that the sets are from.
    pub fn new(sets: &'a SectionSets, code: &'a dyn Code) -> Self {
        let mut numbers: FxHashMap<Kind, KindIx> = FxHashMap::default();
        let mut kinds: Vec<Vec<SampleIx>> = Vec::new();
        let mut kind_of = vec![None; sets.samples.len()];
        for (class, of_class) in (0..).zip(&sets.classes) {
            for ix in of_class.samples.clone() {
                let Some(input) = sets.sample(ix).and_then(|sample| sample.input.as_ref()) else {
                    continue;
                };
                let kind = *numbers.entry((class, input.path)).or_insert_with(|| {
                    kinds.push(Vec::new());
                    kinds.len() as KindIx - 1
                });
                kind_of[ix as usize] = Some(kind);
                kinds[kind as usize].push(ix);
            }
        }
        Self {
            sets,
            code: Decoded::new(code),
            kind_of,
            kinds,
            answers: RefCell::default(),
            tried: Cell::default(),
            spent: Cell::new(0),
        }
    }

    /// What was executed so far.
    pub fn tried(&self) -> Tried {
        self.tried.get()
    }

    fn kind(&self, sample: SampleIx) -> Option<KindIx> {
        self.kind_of.get(sample as usize).copied().flatten()
    }

    fn answer(&self, first: SampleIx, second: SampleIx) -> Order {
        let (Some(a), Some(b)) = (self.kind(first), self.kind(second)) else {
            return Order::Unknown;
        };
        let key = (a.min(b), a.max(b));
        if let Some(order) = self.answers.borrow().get(&key) {
            return *order;
        }
        let order = self.try_kinds(key.0, key.1);
        self.answers.borrow_mut().insert(key, order);
        order
    }

    fn try_kinds(&self, a: KindIx, b: KindIx) -> Order {
        let (of_a, of_b) = (self.observed(a), self.observed(b));
        // Every pair, in an order that meets many different sections first.
        let offsets = 0..of_b.len();
        let pairs = offsets.flat_map(|offset| {
            let second = of_b.iter().cycle().skip(offset);
            of_a.iter().zip(second)
        });
        let of_two_threads = pairs.filter(|((x, _), (y, _))| self.thread(*x) != self.thread(*y));
        let mut order = Order::Unknown;
        for ((_, x), (_, y)) in of_two_threads.take(MAX_PAIRS) {
            let (Some(x), Some(y)) = (x, y) else {
                return Order::Unknown;
            };
            match self.try_pair(x, y) {
                Order::Irrelevant => order = Order::Irrelevant,
                other => return other,
            }
        }
        order
    }

    /// Sections of a kind, spread evenly; `None` = the section cannot be executed.
    fn observed(&self, kind: KindIx) -> Vec<(SampleIx, Option<Observed<'a>>)> {
        let of_kind = self.kinds.get(kind as usize).map_or(&[][..], Vec::as_slice);
        let step = of_kind.len().div_ceil(MAX_OF_KIND).max(1);
        let spread = of_kind.iter().step_by(step);
        let observed = spread.filter_map(|&ix| {
            let input = self.sets.sample(ix)?.input.as_ref()?;
            let observed = self
                .afford(input.instructions)
                .then(|| observe(input, &self.code));
            Some((ix, observed?.ok()))
        });
        observed.collect()
    }

    fn thread(&self, sample: SampleIx) -> Option<u32> {
        Some(self.sets.sample(sample)?.thread)
    }

    fn try_pair(&self, x: &Observed<'_>, y: &Observed<'_>) -> Order {
        let both = x.instructions().saturating_add(y.instructions());
        if !self.afford(both.saturating_mul(EXECUTIONS_OF_PAIR)) {
            return Order::Unknown;
        }
        let mut tried = self.tried.get();
        let (count, order) = match compare(x, y, &self.code) {
            Ok(Outcome::Same) => (&mut tried.same, Order::Irrelevant),
            Ok(Outcome::Differs) => (&mut tried.differs, Order::Matters),
            Err(_) => (&mut tried.unknown, Order::Unknown),
        };
        *count += 1;
        self.tried.set(tried);
        order
    }

    fn afford(&self, instructions: u64) -> bool {
        let spent = self.spent.get().saturating_add(instructions);
        let is_within = spent <= MAX_INSTRUCTIONS;
        if is_within {
            self.spent.set(spent);
        }
        is_within
    }
}

impl BenignOracle for BothOrders<'_> {
    fn order(&self, first: SampleIx, second: SampleIx, a: &Access, b: &Access) -> Order {
        match StaticRules.order(first, second, a, b) {
            Order::Unknown => self.answer(first, second),
            known => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_profile::{FoundWord, SectionInput};

    use super::*;
    use crate::sets::{SetClass, SetSample, Update};
    use crate::ulcp::{classify, Class};

    const BEGIN: u64 = 0x1000;
    const LOCK: u64 = 0x5000;
    const SHARED: u64 = 0x10_0000;

    /// mov rax, [rbx]; add rax, r12; mov [rbx], rax; mov edi, LOCK; then the release.
    const ADD: &[u8] = &[
        0x48, 0x8b, 0x03, 0x4c, 0x01, 0xe0, 0x48, 0x89, 0x03, 0xbf, 0x00, 0x50, 0x00, 0x00,
    ];
    /// mov [rbx], r12; mov edi, LOCK; then the release.
    const STORE: &[u8] = &[0x4c, 0x89, 0x23, 0xbf, 0x00, 0x50, 0x00, 0x00];

    /// A section of a thread that found 40 and has a value in r12.
    fn sample(thread: u32, instructions: u64, loads: u64, own: u64) -> SetSample {
        let top = 0x70_0000 + u64::from(thread) * 0x10_0000;
        let input = SectionInput {
            resume: BEGIN,
            object: LOCK,
            registers: [0, SHARED, 0, top, own, 0, 0, 0, 0],
            stack_lo: top - 0x1_0000,
            instructions,
            loads,
            found: vec![FoundWord {
                address: SHARED,
                value: 40,
                known: 0xff,
            }],
            ..SectionInput::default()
        };
        let access = Access {
            word: 0,
            read: true,
            written: true,
            update: Update::Unknown,
            ..Access::default()
        };
        SetSample {
            thread,
            weight: 1,
            accesses: vec![access],
            complete: true,
            input: Some(Box::new(input)),
            ..SetSample::default()
        }
    }

    fn sets(samples: Vec<SetSample>) -> SectionSets {
        let all = 0..samples.len() as SampleIx;
        SectionSets {
            samples,
            classes: vec![SetClass {
                samples: all,
                ..SetClass::default()
            }],
            ..SectionSets::default()
        }
    }

    fn class(section: &[u8], sets: &SectionSets) -> (Class, Tried) {
        let at = |address: u64| {
            Some(
                section
                    .get(address.checked_sub(BEGIN)? as usize..)?
                    .to_vec(),
            )
        };
        let oracle = BothOrders::new(sets, &at);
        (classify(sets, &oracle, 0, 1), oracle.tried())
    }

    fn add(thread: u32, own: u64) -> SetSample {
        sample(thread, 4, SectionInput::digest(0, SHARED, 40), own)
    }

    #[test]
    fn pairs_whose_order_changes_nothing_are_benign() {
        let sets = sets(vec![add(1, 5), add(2, 7), add(3, 9)]);
        let (class, tried) = class(ADD, &sets);
        assert_eq!(class, Class::Benign);
        assert_eq!((tried.same, tried.differs, tried.unknown), (6, 0, 0));
    }

    #[test]
    fn one_pair_whose_order_matters_makes_its_kinds_true_contention() {
        let store = |thread, own| sample(thread, 2, 0, own);
        let same = sets(vec![store(1, 5), store(2, 5), store(3, 5)]);
        assert_eq!(class(STORE, &same).0, Class::Benign);
        let one_differs = sets(vec![store(1, 5), store(2, 5), store(3, 6)]);
        let (class, tried) = class(STORE, &one_differs);
        assert_eq!((class, tried.differs), (Class::TrueContention, 1));
    }

    #[test]
    fn a_section_that_cannot_be_executed_again_leaves_its_kind_undecided() {
        let mut diverged = add(3, 9);
        if let Some(input) = &mut diverged.input {
            input.loads ^= 1;
        }
        let sets = sets(vec![add(1, 5), add(2, 7), diverged]);
        assert_eq!(class(ADD, &sets).0, Class::Undecided);
    }

    #[test]
    fn sections_of_one_thread_decide_nothing() {
        let sets = sets(vec![add(1, 5), add(1, 7)]);
        assert_eq!(class(ADD, &sets), (Class::Undecided, Tried::default()));
    }

    #[test]
    fn sections_without_values_are_left_to_the_rules() {
        let mut unseen = add(2, 7);
        unseen.input = None;
        let mut sets = sets(vec![add(1, 5), unseen]);
        assert_eq!(class(ADD, &sets).0, Class::Undecided);
        for sample in &mut sets.samples {
            sample.accesses[0].update = Update::Add;
        }
        assert_eq!(class(ADD, &sets).0, Class::Benign);
    }
}
