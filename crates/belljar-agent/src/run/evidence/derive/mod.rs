//! Values derived from code: what each printed value was computed from, and how, as the code of the cells says it.
//!
//! Nothing runs here. The statements are followed in their order with an abstract value for each name: its columns,
//! measures, conditions and inputs. What can't be followed is unknown, and then a value is printed but not derived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::units::{self, Unit};

mod calls;
mod cells;
mod citations;
mod expressions;
mod lines;
#[cfg(test)]
mod tests;

pub(super) use cells::Cells;
use cells::Shown;
pub(super) use lines::{Bound, Place, bind};

/// Names of columns and variables, and the texts and numbers of conditions.
pub(super) type Words = BTreeSet<String>;

/// How a value was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    Sum,
    Mean,
    Median,
    Count,
    Distinct,
    Max,
    Min,
    /// Standard deviation, variance, quantile.
    Spread,
    Ratio,
    Difference,
    /// A sum of different things, such as salary and bonus.
    Both,
    /// By a function that is not known.
    Other,
}

/// An abstract value.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) shape: Shape,
    /// What it is about: the columns it was taken from, or the names that it was given.
    pub(super) about: Words,
    /// The outermost first, each once.
    pub(super) measures: Vec<Measure>,
    /// The words of the conditions that its rows satisfy.
    pub(super) limits: Words,
    /// What its rows were grouped by.
    pub(super) by: Words,
    /// What its row was picked by: the largest, the first.
    pub(super) picked: Option<Words>,
    /// What its rows are sorted by.
    sorted: Option<Words>,
    pub(super) inputs: BTreeMap<String, Arc<Origin>>,
    pub(super) files: BTreeSet<String>,
    /// The units that its columns are named by.
    pub(super) units: BTreeSet<Unit>,
    /// Its text, if it is a constant.
    constant: Option<String>,
    /// Whether it says of each row if a condition holds.
    is_mask: bool,
    /// Whether the labels of its rows are measures, as in `describe()`.
    pub(super) describes: bool,
}

/// Where a name was written.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) cell: Option<u32>,
    pub(super) code: String,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Shape {
    #[default]
    Unknown,
    Scalar,
    Row,
    Series,
    /// A table, with the columns that are known.
    Frame(Vec<(String, Made)>),
    Groups,
    Tuple(Vec<Made>),
    List(Box<Made>),
    Dict(Vec<(String, Made)>),
    /// A dictionary with values of one kind.
    Map(Box<Made>),
}

/// The most words of one kind, inputs, and parts of a value: code may double them in each line.
const MOST_WORDS: usize = 16;
const MOST_PARTS: usize = 80;

impl Made {
    fn scalar() -> Self {
        Self {
            shape: Shape::Scalar,
            ..Self::default()
        }
    }

    fn constant(text: String) -> Self {
        Self {
            constant: Some(text),
            ..Self::scalar()
        }
    }

    fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The same with another measure around it.
    fn measured(mut self, measure: Measure) -> Self {
        self.measures.retain(|one| *one != measure);
        self.measures.insert(0, measure);
        self.constant = None;
        self
    }

    pub(super) fn outer(&self) -> Option<Measure> {
        self.measures.first().copied()
    }

    pub(super) fn has(&self, measure: Measure) -> bool {
        self.measures.contains(&measure)
    }

    /// Takes over what another value adds to it, except its shape.
    fn join(&mut self, other: &Self) {
        let add = |to: &mut Words, from: &Words| {
            let room = MOST_WORDS.saturating_sub(to.len());
            to.extend(from.iter().take(room).cloned());
        };
        add(&mut self.about, &other.about);
        add(&mut self.limits, &other.limits);
        add(&mut self.by, &other.by);
        if let Some(picked) = &other.picked {
            add(self.picked.get_or_insert_default(), picked);
        }
        for measure in &other.measures {
            if !self.measures.contains(measure) {
                self.measures.push(*measure);
            }
        }
        self.units.extend(&other.units);
        self.join_inputs(other);
    }

    /// It is about this column or name now.
    fn rename(&mut self, name: &str) {
        self.about = Words::from([name.to_owned()]);
        self.units = units::of_name(name).into_iter().collect();
    }

    fn join_inputs(&mut self, other: &Self) {
        for (name, origin) in &other.inputs {
            if self.inputs.len() < MOST_WORDS {
                self.inputs.insert(name.clone(), Arc::clone(origin));
            }
        }
        let room = MOST_WORDS.saturating_sub(self.files.len());
        self.files.extend(other.files.iter().take(room).cloned());
    }

    /// Takes over where its rows come from: what a column has of its table.
    fn join_rows(&mut self, table: &Self) {
        let mut rows = Self {
            limits: table.limits.clone(),
            by: table.by.clone(),
            picked: table.picked.clone(),
            ..Self::default()
        };
        rows.join_inputs(table);
        self.join(&rows);
        if self.sorted.is_none() {
            self.sorted.clone_from(&table.sorted);
        }
    }

    fn parts(&self) -> usize {
        let of = |many: &[(String, Self)]| many.iter().map(|(_, one)| one.parts()).sum();
        1 + match &self.shape {
            Shape::Frame(named) | Shape::Dict(named) => of(named),
            Shape::Tuple(all) => all.iter().map(Self::parts).sum(),
            Shape::List(one) | Shape::Map(one) => one.parts(),
            _ => 0,
        }
    }

    /// Without its parts, if these are too many.
    fn bounded(mut self) -> Self {
        if self.parts() > MOST_PARTS {
            self.shape = Shape::Unknown;
        }
        self
    }

    /// What a loop over it gets.
    fn element(&self) -> Self {
        let mut one = match &self.shape {
            Shape::List(one) => (**one).clone(),
            Shape::Tuple(all) => joined(all),
            Shape::Groups => {
                let mut key = self.clone().with_shape(Shape::Scalar);
                key.about.clone_from(&self.by);
                let rows = self.clone().with_shape(Shape::Frame(Vec::new()));
                return Self::default().with_shape(Shape::Tuple(vec![key, rows]));
            }
            Shape::Series => return self.clone().with_shape(Shape::Scalar),
            Shape::Map(_) | Shape::Dict(_) => {
                let mut key = self.clone().with_shape(Shape::Scalar);
                key.about.clone_from(&self.by);
                key.measures.clear();
                return key;
            }
            _ => return self.clone().with_shape(Shape::Unknown),
        };
        one.join_rows(self);
        one
    }
}

/// Values of one kind, as one.
fn joined(all: &[Made]) -> Made {
    let mut parts = all.iter();
    let Some(mut whole) = parts.next().cloned() else {
        return Made::default();
    };
    for part in parts {
        whole.constant = None;
        whole.join(part);
        match (&mut whole.shape, &part.shape) {
            (Shape::Tuple(own), Shape::Tuple(other)) if own.len() == other.len() => {
                for (own, other) in own.iter_mut().zip(other) {
                    own.constant = None;
                    own.join(other);
                }
            }
            (Shape::Scalar, Shape::Scalar) | (Shape::Dict(_), Shape::Dict(_)) => {}
            (own, _) => *own = Shape::Unknown,
        }
    }
    whole
}

/// The measure that a function, a method, an aggregate or a row of `describe()` computes.
pub(super) fn measure_of(name: &str) -> Option<Measure> {
    Some(match name {
        "sum" | "fsum" | "nansum" | "cumsum" | "total" => Measure::Sum,
        "mean" | "fmean" | "nanmean" | "average" | "avg" => Measure::Mean,
        "median" | "nanmedian" | "50%" => Measure::Median,
        "count" | "size" | "len" | "value_counts" => Measure::Count,
        "nunique" => Measure::Distinct,
        "max" | "nanmax" | "amax" => Measure::Max,
        "min" | "nanmin" | "amin" => Measure::Min,
        "std" | "var" | "stdev" | "variance" | "pstdev" | "pvariance" | "quantile"
        | "percentile" | "25%" | "75%" | "sem" => Measure::Spread,
        "pct_change" => Measure::Ratio,
        "diff" => Measure::Difference,
        _ => return None,
    })
}
