//! What each table must be, and what the tables must be to each other.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{TableName, ValueRules};

use crate::describe::missing;
use crate::relation::Relation;
use calve_core::Finding;

/// The findings about the tables.
pub(super) fn check(relations: &[Relation], tables: &[TableName], rules: &ValueRules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let found: BTreeSet<&TableName> = relations.iter().map(|relation| &relation.table).collect();
    findings.extend(tables.iter().filter(|table| !found.contains(table)).map(missing));
    findings.extend(relations.iter().flat_map(|relation| relation.findings(&rules.table(&relation.table))));
    findings.extend(relations.iter().flat_map(|relation| relation.rule_findings(rules)));
    findings.extend(relations.iter().flat_map(|relation| relation.layout_findings(rules)));
    partitions_beside_their_table(relations, &mut findings);
    names_that_differ_in_case(tables, &mut findings);
    findings
}

/// Changes of a partition come under the name of the partitioned table, if that is published as well.
fn partitions_beside_their_table(relations: &[Relation], findings: &mut Vec<Finding>) {
    let followed: BTreeSet<&TableName> = relations.iter().map(|relation| &relation.table).collect();
    for relation in relations {
        for leaf in relation.leaves.iter().filter(|leaf| followed.contains(&leaf.table)) {
            findings.push(Finding::error(
                format!("table {} and its partition {} are both to be replicated", relation.table, leaf.table),
                format!("leave {} out: its rows are part of {}", leaf.table, relation.table),
            ));
        }
    }
}

fn names_that_differ_in_case(tables: &[TableName], findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(String, String), &TableName> = BTreeMap::new();
    for table in tables {
        let folded = (table.schema.to_lowercase(), table.name.to_lowercase());
        if let Some(other) = seen.insert(folded, table).filter(|other| *other != table) {
            findings.push(Finding::warning(
                format!(
                    "the names of tables {other} and {table} differ in case only: engines and file systems that ignore case \
                     take them for one"
                ),
                "give one of them another name in the lake",
            ));
        }
    }
}
