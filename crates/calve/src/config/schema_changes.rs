//! What the configuration says of tables whose schema changes.

use calve_engine::{Policy, SchemaPolicies};

use super::option::nearest;
use super::reader::Reader;

/// Every option of the section; those that are not given are as the engine has them.
pub(super) fn read(reader: &mut Reader<'_>) -> SchemaPolicies {
    let default = SchemaPolicies::default();
    SchemaPolicies {
        add_column: reader.value_or("schema_changes.add_column", default.add_column, policy),
        drop_column: reader.value_or("schema_changes.drop_column", default.drop_column, policy),
        rename_column: reader.value_or("schema_changes.rename_column", default.rename_column, policy),
        widen_type: reader.value_or("schema_changes.widen_type", default.widen_type, policy),
        drop_not_null: reader.value_or("schema_changes.drop_not_null", default.drop_not_null, policy),
        drop_partition: reader.value_or("schema_changes.drop_partition", default.drop_partition, of_partitions),
        swap: reader.value_or("schema_changes.swap", default.swap, policy),
        otherwise: reader.value_or("schema_changes.otherwise", default.otherwise, of_the_rest),
    }
}

fn policy(text: &str) -> std::result::Result<Policy, String> {
    one_of(text, &[Policy::Apply, Policy::Reload, Policy::Stop])
}

fn of_partitions(text: &str) -> std::result::Result<Policy, String> {
    if text == "apply" {
        return Err(
            "the log does not say which rows were in a partition; use stop, reload, or ignore to keep them".to_owned()
        );
    }
    one_of(text, &[Policy::Stop, Policy::Reload, Policy::Ignore])
}

fn of_the_rest(text: &str) -> std::result::Result<Policy, String> {
    if text == "apply" {
        return Err("rows that are in the lake cannot follow these changes; use stop, or reload".to_owned());
    }
    one_of(text, &[Policy::Stop, Policy::Reload])
}

fn one_of(text: &str, policies: &[Policy]) -> std::result::Result<Policy, String> {
    let words: Vec<&str> = policies.iter().map(|policy| policy.word()).collect();
    if let Some(policy) = policies.iter().find(|policy| policy.word() == text) {
        return Ok(*policy);
    }
    Err(match (nearest(text, words.iter().copied()), words.split_last()) {
        (Some(meant), _) => format!("'{text}' is no policy; did you mean '{meant}'?"),
        (None, Some((last, others))) => format!("'{text}' is no policy; use {} or {last}", others.join(", ")),
        (None, None) => format!("'{text}' is no policy"),
    })
}
