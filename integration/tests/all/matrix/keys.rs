//! Types as parts of a key.
//!
//! Of each part there is a row for each of its values, with the first values of all others. So a delete that took two of its values for one
//! would reach two rows, and one that did not find its value none.

use super::types::{Key, Type};

/// A table whose key is `phase` and one column for each of the types. `origin` numbers the rows, `v` is what an update leaves behind.
pub(super) struct Keys {
    pub(super) name: String,
    types: Vec<Type>,
}

/// Rows of a phase have origins from a multiple of this on, those for the values of one part from a multiple of [`PART`].
const PHASE: usize = 100_000;
const PART: usize = 100;
/// Origins of rows that come later.
const LATER: usize = 50;
/// The origin, counted from a part's, of the row whose value becomes another one that is equal to it.
const EQUAL: usize = 90;

impl Keys {
    pub(super) fn new(name: String, types: Vec<Type>) -> Self {
        assert!(types.iter().all(|ty| ty.key == Key::Legal && ty.values.len() > 1), "a key of one value shows nothing");
        Self { name, types }
    }

    pub(super) fn by_spark(&self) -> bool {
        self.types.iter().all(|ty| ty.by_spark)
    }

    pub(super) fn create(&self) -> String {
        let columns = self.types.iter().enumerate().map(|(at, ty)| format!("k{at} {} not null, ", ty.sql));
        let key = (0..self.types.len()).map(|at| format!(", k{at}"));
        format!(
            "create table {} (v int, phase int not null, {}origin int not null, primary key (phase{}));\n",
            self.name,
            columns.collect::<String>(),
            key.collect::<String>()
        )
    }

    /// A row with the first value of each part but one.
    fn row(&self, phase: usize, part: usize, value: &str, origin: usize) -> String {
        let values = self.types.iter().enumerate().map(|(at, ty)| if at == part { value } else { &ty.values[0] });
        let values: Vec<&str> = values.collect();
        format!("insert into {} values (0, {phase}, {}, {origin});\n", self.name, values.join(", "))
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &Type)> {
        self.types.iter().enumerate()
    }

    pub(super) fn insert(&self, phase: usize) -> String {
        let mut sql = self.row(phase, 0, &self.types[0].values[0], phase * PHASE);
        for (part, ty) in self.parts() {
            for (at, value) in ty.values.iter().enumerate().skip(1) {
                sql += &self.row(phase, part, value, origin(phase, part, at));
            }
            if let Some([one, _]) = &ty.equal {
                sql += &self.row(elsewhere(phase, part, 500), part, one, origin(phase, part, EQUAL));
            }
        }
        sql
    }

    /// Every row's other column changes, and of each part: one value becomes another (the whole key one that was not there), the last
    /// takes the place that this left, and one becomes another that is equal to it.
    pub(super) fn change(&self, phase: usize) -> String {
        let name = &self.name;
        let mut sql = format!(
            "update {name} set v = v + 1 where origin between {} and {};\n",
            phase * PHASE,
            phase * PHASE + PHASE - 1
        );
        for (part, ty) in self.parts() {
            let last = ty.values.len() - 1;
            sql += &format!(
                "update {name} set k{part} = {}, phase = {} where origin = {};\n",
                ty.values[0],
                elsewhere(phase, part, 100),
                origin(phase, part, 1)
            );
            if last > 1 {
                sql += &format!(
                    "update {name} set k{part} = {}, v = v + 1000 where origin = {};\n",
                    ty.values[1],
                    origin(phase, part, last)
                );
            }
            if let Some([_, other]) = &ty.equal {
                sql += &format!("update {name} set k{part} = {other} where origin = {};\n", origin(phase, part, EQUAL));
            }
        }
        sql
    }

    /// After [`change`](Self::change): of each part the row whose value became another one goes, the place that is free is taken again, and
    /// all that is left changes.
    pub(super) fn finish(&self, phase: usize) -> String {
        let name = &self.name;
        let mut sql = String::new();
        for (part, ty) in self.parts() {
            let last = ty.values.len() - 1;
            sql += &format!("delete from {name} where origin = {};\n", origin(phase, part, 1));
            sql += &self.row(phase, part, &ty.values[last], origin(phase, part, last + LATER));
        }
        sql + &format!(
            "update {name} set v = v + 7 where origin between {} and {};\n",
            phase * PHASE,
            phase * PHASE + PHASE - 1
        )
    }
}

fn origin(phase: usize, part: usize, at: usize) -> usize {
    phase * PHASE + (part + 1) * PART + at
}

/// A phase that no other row is of.
fn elsewhere(phase: usize, part: usize, from: usize) -> usize {
    phase + 10 * (part + 1) + 10 * from
}
