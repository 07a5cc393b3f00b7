//! Of PostGIS, on a server that has it: geometries and geographies are the EWKB that `ST_AsEWKB` makes of them, least bytes first.
//!
//! Ignored unless asked for, since the server is not one of those that are everywhere.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, SUPERUSER, Server};

use super::postgres::{self, Tried};
use super::types::{Key, Listed, text, ty};
use crate::case::Case;

const NO_INDEX: Key = Key::RefusedByServer;

/// Types of what indexes keep, which no statement can write.
const WITHOUT_VALUES: [&str; 2] = ["box2df", "gidx"];

const TRIED: Tried = Tried {
    version: "17-postgis",
    extensions: &["postgis"],
    own_types: "create domain place as geometry(Point,4326); create domain spot as geography;",
    types: TYPES,
    of_many: &[],
    // Of an extension's type an array has the texts.
    binary_arrays: false,
};

const TYPES: &[Listed] = &[
    ty(
        "geometry",
        &[
            "'POINT(-1.7976931348623157e308 -1.7976931348623157e308)'",
            "'POINT(1.7976931348623157e308 1.7976931348623157e308)'",
            "'POINT(0 0)'",
            "'POINT(-0 0)'",
            "'POINT(5e-324 0.1)'",
            "'POINT(5e-324 0.10000000000000002)'",
            "'POINT EMPTY'",
            "'SRID=4326;POINT EMPTY'",
            "'POINT Z EMPTY'",
            "'POINT M EMPTY'",
            "'POINT ZM EMPTY'",
            "st_makepoint('NaN', 'Infinity')",
            "st_makepoint('NaN', '-Infinity')",
            "'SRID=4326;POINT(0 0)'",
            "'SRID=1;POINT(0 0)'",
            "'SRID=999999;POINT(0 0)'",
            "'POINT Z(1 2 3)'",
            "'POINT M(1 2 3)'",
            "'POINT ZM(1 2 3 4)'",
            "'SRID=3857;POINT ZM(1 2 3 4)'",
            "st_geomfromwkb('\\x00000000013ff00000000000004000000000000000')",
            "st_geomfromewkb('\\x0020000001000010e63ff00000000000004000000000000000')",
        ],
    ),
    ty(
        "geometry",
        &[
            "'LINESTRING(0 0,1 1)'",
            "'LINESTRING(0 0,1 1,1 1)'",
            "'LINESTRING EMPTY'",
            "'SRID=4326;LINESTRING ZM(0 0 1 2,1 1 3 4)'",
            "'POLYGON EMPTY'",
            "'POLYGON((0 0,9 0,9 9,0 9,0 0))'",
            "'POLYGON((0 0,9 0,9 9,0 9,0 0),(1 1,2 1,2 2,1 1),(5 5,6 5,6 6,5 5))'",
            "'SRID=3857;POLYGON Z((0 0 1,9 0 1,9 9 1,0 0 1),(5 2 1,6 2 1,6 3 1,5 2 1))'",
            "'MULTIPOINT EMPTY'",
            "'MULTIPOINT(0 0,1 2)'",
            "'MULTIPOINT(EMPTY,1 2)'",
            "'MULTILINESTRING EMPTY'",
            "'MULTILINESTRING M((0 0 1,1 1 2),(2 2 3,3 3 4))'",
            "'MULTIPOLYGON EMPTY'",
            "'SRID=4326;MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,9 5,9 9,5 5),(7 6,8 6,8 7,7 6)))'",
            "'GEOMETRYCOLLECTION EMPTY'",
            "'GEOMETRYCOLLECTION(POINT EMPTY)'",
            "'GEOMETRYCOLLECTION Z EMPTY'",
            "'SRID=4326;GEOMETRYCOLLECTION(POINT(1 2),LINESTRING EMPTY,GEOMETRYCOLLECTION(POLYGON((0 0,1 0,1 1,0 0))))'",
        ],
    )
    .key(Key::SameAs("geometry")),
    ty(
        "geometry",
        &[
            "'CIRCULARSTRING(0 0,1 1,2 0)'",
            "'CIRCULARSTRING EMPTY'",
            "'COMPOUNDCURVE(CIRCULARSTRING(0 0,1 1,2 0),(2 0,3 0))'",
            "'CURVEPOLYGON(CIRCULARSTRING(0 0,4 0,4 4,0 4,0 0),(1 1,3 3,3 1,1 1))'",
            "'MULTICURVE((0 0,5 5),CIRCULARSTRING(4 0,4 4,8 4))'",
            "'MULTISURFACE(((0 0,1 0,1 1,0 0)),CURVEPOLYGON((0 0,9 0,9 9,0 0)))'",
            "'TRIANGLE((0 0,0 9,9 0,0 0))'",
            "'TIN Z(((0 0 0,0 0 1,0 1 0,0 0 0)),((0 0 0,0 1 0,1 1 0,0 0 0)))'",
            "'SRID=4326;POLYHEDRALSURFACE Z(((0 0 0,0 0 1,0 1 1,0 1 0,0 0 0)))'",
        ],
    )
    .key(Key::SameAs("geometry")),
    ty("geometry(Point,3857)", &["'SRID=3857;POINT(-20037508.34 0)'", "'SRID=3857;POINT(0 0)'", "'SRID=3857;POINT EMPTY'"]),
    ty("geometry(PointZ)", &["'POINT Z(0 0 0)'", "'SRID=4326;POINT Z(1 2 -3)'"]),
    ty("geometry(LineStringM,4326)", &["'SRID=4326;LINESTRING M(0 0 0,1 1 1)'", "'SRID=4326;LINESTRING M EMPTY'"]),
    ty("geometry(PolygonZM)", &["'POLYGON ZM((0 0 1 2,1 0 1 2,1 1 1 2,0 0 1 2))'", "'POLYGON ZM EMPTY'"]),
    ty("geometry(GeometryCollection)", &["'GEOMETRYCOLLECTION EMPTY'", "'GEOMETRYCOLLECTION(POINT(0 0),POINT(0 0))'"]),
    ty("place", &["'SRID=4326;POINT(0 0)'", "'SRID=4326;POINT(0 1)'"]),
    ty(
        "geography",
        &[
            "'POINT(-180 -90)'",
            "'POINT(180 90)'",
            "'POINT(0 0)'",
            "'POINT(-0 0)'",
            "'SRID=4269;POINT(0 0)'",
            "'POINT EMPTY'",
            "'POINT Z(0 0 8848.86)'",
            "'POINT M(0 0 8848.86)'",
            "'POINT ZM(0 0 8848.86 1)'",
            "'LINESTRING(179 0,-179 0)'",
            "'LINESTRING EMPTY'",
            "'POLYGON((0 0,9 0,9 9,0 9,0 0),(1 1,2 1,2 2,1 1))'",
            "'POLYGON EMPTY'",
            "'MULTIPOINT(0 0,1 2)'",
            "'MULTILINESTRING((0 0,1 1),(2 2,3 3))'",
            "'MULTIPOLYGON Z(((0 0 1,1 0 1,1 1 1,0 0 1)))'",
            "'GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))'",
            "'GEOMETRYCOLLECTION EMPTY'",
        ],
    ),
    ty("geography(Point,4326)", &["'POINT(-180 90)'", "'POINT(0 0)'", "'POINT EMPTY'"]),
    ty("geography(PolygonZ,4326)", &["'POLYGON Z((0 0 1,1 0 1,1 1 1,0 0 1))'", "'POLYGON Z EMPTY'"]),
    ty("spot", &["'POINT(0 0)'", "'POINT(0 1)'"]),
    text("box2d", &["'BOX(-1.5e300 -2,3 1.5e300)'", "'BOX(0 0,0 0)'", "'BOX(0 0,0 1)'"]).key(NO_INDEX),
    text("box3d", &["'BOX3D(-1.5e300 -2 -3,3 4 1.5e300)'", "'BOX3D(0 0 0,0 0 0)'", "'BOX3D(0 0 0,0 0 1e-7)'"]).key(NO_INDEX),
    text("spheroid", &["'SPHEROID[\"WGS 84\",6378137,298.257223563]'", "'SPHEROID[\"a\",1,2]'"]).key(NO_INDEX),
    text("geometry_dump", &["'(,)'", "row(array[1,2], 'POINT(0 0)'::geometry)::geometry_dump", "row(null, 'POINT EMPTY'::geometry)::geometry_dump"]),
    text("valid_detail", &["'(,,)'", "row(false, 'Self-intersection', 'POINT(0 0)'::geometry)::valid_detail"]),
];

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn in_text_form() -> anyhow::Result<()> {
    postgres::values_are_what_the_server_prints(TRIED, true)
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn in_binary_form() -> anyhow::Result<()> {
    postgres::values_are_what_the_server_prints(TRIED, false)
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn as_texts() -> anyhow::Result<()> {
    postgres::as_texts(TRIED)
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn what_is_no_key_is_refused() -> anyhow::Result<()> {
    postgres::what_is_no_key_is_refused(TRIED)
}

/// Every type of the extension is one of the list.
#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn no_type_is_left_out() -> anyhow::Result<()> {
    let mut case = TRIED.case("postgis_types")?;
    // Not arrays, and not the rows of its table and views.
    let types = case.sql.rows(
        "select t.typname from pg_type t join pg_depend d on d.classid = 'pg_type'::regclass and d.objid = t.oid
         where d.refobjid = (select oid from pg_extension where extname = 'postgis') and d.deptype = 'e' and t.typcategory <> 'A'
           and not exists (select from pg_class c where c.oid = t.typrelid and c.relkind <> 'c')",
    )?;
    let listed = TYPES.iter().map(|listed| listed.sql.split('(').next().unwrap_or_default());
    let known: BTreeSet<&str> = listed.chain(WITHOUT_VALUES).collect();
    let missing: Vec<&str> =
        types.iter().flatten().flatten().map(String::as_str).filter(|name| !known.contains(name)).collect();
    ensure!(types.len() > 5 && missing.is_empty(), "of {} types no line of the list is of {missing:?}", types.len());
    case.pass()
}

/// Large values that an update leaves alone are not in the log, unless the table has REPLICA IDENTITY FULL.
fn large_values_left_alone_are_kept(text: bool) -> anyhow::Result<()> {
    const TABLES: [&str; 2] = ["public.areas", "public.whole"];
    let mut case = Case::on(&Server::shared(Kind::Postgres, TRIED.version)?, "postgis_left_alone", "", &TABLES)?;
    Sql::connect(&case.database.url(SUPERUSER)?)?.run("create extension postgis schema public")?;
    let texts =
        if text { "extent box2d default 'BOX(0 0,1 1)', many geometry[] default '{POINT(0 0):NULL}'," } else { "" };
    let create = |table: &str| {
        format!(
            "create table {table} (n int default 0, area geometry(Polygon,3857), {texts} region geography, packed geometry, id int primary key);
             alter table {table} alter area set storage external;
             insert into {table} (id, area, region, packed)
             select i, st_buffer(st_setsrid(st_makepoint(i, -i), 3857), i, 200), st_buffer(st_setsrid(st_makepoint(i, i), 4326), 0.5, 400)::geography,
                    st_collect(array(select st_makepoint(i, ln(j), sqrt(i * j)) from generate_series(1, 2000) j))
               from generate_series(1, 30) i;"
        )
    };
    let change = |table: &str, round: u32| {
        format!(
            "update {table} set n = n + 1;
             update {table} set id = id + 100 where id between 3 and 5; update {table} set n = 7 where id = 104;
             update {table} set area = st_translate(area, 1, 0) where id % 4 = 1; update {table} set n = n + 1 where id % 2 = 1;
             update {table} set region = 'POINT EMPTY' where id = 6; update {table} set packed = null where id = 7;
             update {table} set region = st_buffer(st_setsrid(st_makepoint({round}, 0), 4326), 0.1, 400)::geography where id = 6 + {round};
             begin; update {table} set id = -1 where id = 9; update {table} set id = 9 where id = 10; update {table} set id = 10 where id = -1; commit;
             delete from {table} where id = 20 + {round}; update {table} set id = 20 + {round} where id = 25 + {round};"
        )
    };
    for table in TABLES {
        case.sql.run(&create(table))?;
        let beside_row = ["area", "region", "packed"].map(|column| format!("pg_column_toast_chunk_id({column})"));
        let in_row = case.sql.value(&format!("select sum(num_nulls({})) from {table}", beside_row.join(", ")))?;
        ensure!(in_row == "0", "{table}: {in_row} large values stand in their rows");
    }
    case.sql.run("alter table whole replica identity full")?;
    case.once_and_same(&TABLES)?;
    for round in 1..3 {
        case.sql.run(&TABLES.map(|table| change(table, round)).concat())?;
        case.once_and_same(&TABLES)?;
    }
    let calve = case.pipeline.start()?;
    case.sql.run(&TABLES.map(|table| change(table, 3)).concat())?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.same_by_spark(&TABLES)?;
    for table in TABLES {
        let state = case.pipeline.state(table)?;
        ensure!(state.reason.is_empty(), "{table}: {state:?}");
    }
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn large_values_left_alone_are_kept_in_text_form() -> anyhow::Result<()> {
    large_values_left_alone_are_kept(true)
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn large_values_left_alone_are_kept_in_binary_form() -> anyhow::Result<()> {
    large_values_left_alone_are_kept(false)
}

/// The extension comes while calve runs, in a schema of its own; then columns of its types.
#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn columns_come_while_calve_runs() -> anyhow::Result<()> {
    const TABLES: [&str; 1] = ["public.places"];
    let server = Server::shared(Kind::Postgres, TRIED.version)?;
    let schema = "create table places (id int primary key); insert into places select generate_series(1, 9)";
    let mut case = Case::on(&server, "postgis_columns", schema, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let calve = case.pipeline.start()?;
    let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
    superuser.run("create schema gis; create extension postgis schema gis; grant usage on schema gis to public")?;
    case.sql.run("set search_path = public, gis")?;
    for change in [
        "alter table places add at geometry(Point,4326); update places set at = st_setsrid(st_makepoint(id, 0), 4326) where id < 5",
        "alter table places add region geography; update places set region = 'POLYGON((0 0,1 0,1 1,0 0))' where id = 3",
        // Its binary form is not understood, so the stream begins again in text form.
        "alter table places add extent box2d, add many geometry[]; update places set extent = 'BOX(0 0,1 1)', many = array[at, null] where id < 4",
        "alter table places rename at to place; update places set place = null where id = 4",
    ] {
        case.sql.run(change)?;
        case.await_same(&TABLES).with_context(|| change.to_owned())?;
    }
    // Of another kind of geometry the rows that are there may be others too.
    case.sql.run("alter table places alter place type geometry(GeometryZ) using st_force3d(place, 7)")?;
    case.sql.run("update places set place = 'LINESTRING Z(0 0 1,1 1 2)' where id = 1")?;
    let state = case.pipeline.await_state(TABLES[0], "stopped")?;
    for part in ["place", "gis.geometry(Point,4326)", "gis.geometry(GeometryZ)"] {
        ensure!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
    }
    case.pipeline.finish(&["reload", TABLES[0]])?.expect_success()?;
    case.sql.run("update places set place = 'POINT Z EMPTY' where id = 2")?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.same_by_spark(&TABLES)?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}
