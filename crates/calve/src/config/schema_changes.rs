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
        otherwise: reader.value_or("schema_changes.otherwise", default.otherwise, |text| match policy(text)? {
            Policy::Apply => {
                Err("rows that are in the lake cannot follow these changes; use stop, or reload".to_owned())
            }
            policy => Ok(policy),
        }),
    }
}

fn policy(text: &str) -> std::result::Result<Policy, String> {
    match text {
        "apply" => Ok(Policy::Apply),
        "reload" => Ok(Policy::Reload),
        "stop" => Ok(Policy::Stop),
        _ => Err(match nearest(text, ["apply", "reload", "stop"].into_iter()) {
            Some(meant) => format!("'{text}' is no policy; did you mean '{meant}'?"),
            None => format!("'{text}' is no policy; use apply, reload or stop"),
        }),
    }
}
