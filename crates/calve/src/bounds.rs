//! How far each table is complete, as the lake records it.

use std::collections::BTreeMap;

use calve_core::{CompleteTo, Lake, LakeTable, Position, Result, TableName};
use calve_iceberg::IcebergLake;

use crate::wiring::Targets;

/// What the tables' properties say about completeness.
pub(crate) struct Bounds {
    tables: BTreeMap<TableName, LakeTable>,
    complete_to: Vec<CompleteTo>,
}

impl Bounds {
    /// Reads every table's properties.
    pub(crate) async fn read(lake: &IcebergLake, targets: &Targets) -> Result<Self> {
        let mut tables = BTreeMap::new();
        for table in targets.keys() {
            if let Some(state) = lake.load(table).await? {
                tables.insert(table.clone(), state);
            }
        }
        Ok(Self::of(tables))
    }

    fn of(tables: BTreeMap<TableName, LakeTable>) -> Self {
        let complete_to = tables.values().flat_map(|state| state.complete_to.iter().cloned()).collect();
        Self { tables, complete_to }
    }

    /// A table's own position, or the greatest completeness of a set that it belongs to. `own` is the position of a state
    /// read later than these properties, so that both speak of the same rows.
    pub(crate) fn bound(&self, table: &TableName, own: Option<&Position>) -> Option<Position> {
        let own = own?.clone();
        let state = self.tables.get(table)?;
        let named = self.complete_to.iter().filter(|complete| state.member_of.contains(&complete.members));
        Some(named.map(|complete| complete.position.clone()).fold(own, |a, b| a.join(&b)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use calve_core::{LakeVersion, Lsn, MemberDigest};

    use super::*;

    #[test]
    fn completeness_counts_for_the_members_of_its_set_only() {
        let at = |lsn| Position::Postgres(Lsn(lsn));
        let [a, b, c] = ["a", "b", "c"].map(|name| TableName::new("public", name));
        let load = calve_core::CheckpointId(uuid::Uuid::nil());
        let set = MemberDigest::of([(&a, load), (&b, load)]);
        let state = |complete_to: Vec<CompleteTo>, member_of: BTreeSet<MemberDigest>| LakeTable {
            version: LakeVersion(String::new()),
            stamp: None,
            rolled_back: false,
            complete_to,
            member_of,
            stopped: None,
        };
        let bounds = Bounds::of(
            [
                (a.clone(), state(vec![CompleteTo { members: set, position: at(9) }], [set].into())),
                (b.clone(), state(Vec::new(), [set].into())),
                (c.clone(), state(Vec::new(), BTreeSet::new())),
            ]
            .into(),
        );
        assert_eq!(bounds.bound(&b, Some(&at(5))), Some(at(9)));
        assert_eq!(bounds.bound(&b, Some(&at(12))), Some(at(12)));
        assert_eq!(bounds.bound(&c, Some(&at(5))), Some(at(5)));
        // A table that was never loaded is complete to nothing, whatever set it joined.
        assert_eq!(bounds.bound(&a, None), None);
    }
}
