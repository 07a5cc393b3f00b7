//! Columns of VECTOR that come later, and long ones. The values of VECTOR are `matrix`'s.

use calve_testkit::servers::{Kind, Server};

use super::BinlogCase;

fn vector(kind: Kind, numbers: &str) -> String {
    let of_text = if kind == Kind::MySql { "string_to_vector" } else { "vec_fromtext" };
    format!("{of_text}('[{numbers}]')")
}

fn columns_of_vectors_come(server: &Server) -> anyhow::Result<()> {
    let kind = server.kind();
    let long = (0..300).map(|n| format!("{}.5", n - 150)).collect::<Vec<_>>().join(",");
    let schema = "create table grows (id int primary key, t varchar(9) character set latin1) charset utf8mb4; insert into grows values (1, 'x')";
    let mut case = BinlogCase::on(server, "vectors", schema, &["grows"])?;
    case.once_and_same(&["grows"])?;
    case.sql.run(&format!(
        "alter table grows add v vector(2); insert into grows values (2, 'caf\u{e9}', {}), (3, 'x', null);
         alter table grows add w vector(300) first; update grows set w = {}, v = {} where id = 2",
        vector(kind, "7,8"),
        vector(kind, &long),
        vector(kind, "0.5,-1"),
    ))?;
    case.once_and_same(&["grows"])?;
    case.same_by_spark(&["grows"])?;
    case.reload(&["grows"])?;
    case.same(&["grows"])?;
    case.pass()
}

#[test]
fn of_mysql_9() -> anyhow::Result<()> {
    columns_of_vectors_come(&Server::shared(Kind::MySql, "9")?)
}

#[test]
fn of_mariadb_11_8() -> anyhow::Result<()> {
    columns_of_vectors_come(&Server::shared(Kind::MariaDb, "11.8")?)
}
