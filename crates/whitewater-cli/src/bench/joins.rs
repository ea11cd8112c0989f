//! Joins: row numbers of both sides, whole rows, semi joins, left joins, several keys, conditions.

use arrow::datatypes::Field;
use whitewater::{
    Batch, Error,
    expr::{Expr, Literal, Op},
    join::{Join, JoinKey, Joiner, Kind, Output, Side, join},
};

use super::{
    Case, Context, MakeCase, Measurement,
    engine::{ROWS, device_of, long},
    inputs::{Input, KeyOf, batch},
    timed,
};

/// A case that runs `work` on a build side and a probe side of [`ROWS`] rows; `work` gives the rows of its result.
/// `probe` makes the probe side's columns for a build side of so many rows.
fn case(
    name: String,
    build_rows: u64,
    build: Vec<Input>,
    probe: impl FnOnce(u64) -> Vec<Input> + 'static,
    work: impl Fn(&Batch, &Batch) -> Result<u64, Error> + 'static,
) -> MakeCase {
    Box::new(move |context: &Context| {
        let device = context.device.clone();
        let probe_rows = context.rows_or(ROWS);
        let build_rows = (build_rows * probe_rows / ROWS).max(4);
        let builds = batch(&device, build_rows, &build)?;
        let probes = batch(&device, probe_rows, &probe(build_rows))?;
        Ok(Case {
            name,
            run: Box::new(move || {
                let (elapsed, out) = timed(&device, || work(&builds, &probes))?;
                Ok(Measurement {
                    elapsed,
                    rows_out: Some(out),
                    bytes: None,
                })
            }),
        })
    })
}

fn keys(count: usize) -> Vec<JoinKey> {
    let key = |i| JoinKey {
        build: Expr::column(i),
        probe: Expr::column(i),
        null_equals_null: false,
    };
    (0..count).map(key).collect()
}

/// The columns at `of`, as outputs.
fn outputs(of: &[(Side, usize)], build: &Batch, probe: &Batch) -> Vec<(Output, Field)> {
    let output = |(side, index): &(Side, usize)| {
        let schema = match side {
            Side::Build => &build.schema,
            Side::Probe => &probe.schema,
        };
        (Output::Column(*side, *index), schema.field(*index).clone())
    };
    of.iter().map(output).collect()
}

/// The row numbers of both sides that `join` gives; how many they are.
fn pairs(build: &Batch, probe: &Batch, join: Join) -> Result<u64, Error> {
    let (mut rows, mut given) = (0, Vec::new());
    let mut joiner = Joiner::new(&device_of(build)?, build, join)?;
    joiner.probe_maps(probe, |maps| {
        rows += maps.rows as u64;
        given.push(maps);
        Ok(())
    })?;
    Ok(rows)
}

/// Row numbers of both sides, by `count` keys.
fn maps(kind: Kind, count: usize) -> impl Fn(&Batch, &Batch) -> Result<u64, Error> {
    move |build, probe| {
        let join = Join {
            kind,
            keys: keys(count),
            condition: None,
            outputs: Vec::new(),
        };
        pairs(build, probe, join)
    }
}

/// Whole rows of `kind`: the columns at `of`.
fn rows(kind: Kind, of: &'static [(Side, usize)]) -> impl Fn(&Batch, &Batch) -> Result<u64, Error> {
    move |build, probe| {
        let wanted = Join {
            kind,
            keys: keys(1),
            condition: None,
            outputs: outputs(of, build, probe),
        };
        Ok(join(&device_of(build)?, build, probe, &wanted)?.rows as u64)
    }
}

/// A key of the build side that occurs so often, and one of the probe side, of `among` that are there.
fn key(times: u64) -> Input {
    Input::Key {
        of: KeyOf::Each { times },
        narrow: false,
    }
}

fn key_of(among: u64) -> Input {
    Input::Key {
        of: KeyOf::Random { among },
        narrow: false,
    }
}

/// Every join that has a recorded peer.
pub fn cases(_: &Context) -> Vec<MakeCase> {
    let mut cases = Vec::new();
    for build_rows in [1_000_000, 10_000_000, 100_000_000] {
        let name = |what: &str| format!("join {what} i64 {build_rows}x{ROWS}");
        cases.push(case(
            name("inner") + " unique",
            build_rows,
            vec![key(1)],
            |rows| vec![key_of(rows)],
            maps(Kind::Inner, 1),
        ));
        cases.push(case(
            name("whole+payload"),
            build_rows,
            vec![key(1), long(0, 1000)],
            |rows| vec![key_of(rows), long(0, 1000)],
            rows(
                Kind::Inner,
                &[(Side::Probe, 0), (Side::Probe, 1), (Side::Build, 1)],
            ),
        ));
        cases.push(case(
            name("semi"),
            build_rows,
            vec![key(1)],
            |rows| vec![key_of(rows)],
            rows(Kind::Semi(Side::Probe), &[(Side::Probe, 0)]),
        ));
        cases.push(case(
            name("left 50%"),
            build_rows,
            vec![key(1)],
            |rows| vec![key_of(2 * rows)],
            maps(Kind::Outer(Side::Probe), 1),
        ));
    }
    let build_rows = 10_000_000;
    cases.push(case(
        format!("join inner i64 dup4 {build_rows}x{ROWS}"),
        build_rows,
        vec![key(4)],
        |rows| vec![key_of(rows / 4)],
        maps(Kind::Inner, 1),
    ));
    let narrow = |of| Input::Key { of, narrow: true };
    cases.push(case(
        format!("join inner 2keys i64+i32 {build_rows}x{ROWS}"),
        build_rows,
        vec![key(1), narrow(KeyOf::Each { times: 1 })],
        move |among| vec![key_of(among), narrow(KeyOf::Random { among })],
        maps(Kind::Inner, 2),
    ));
    cases.push(by_condition());
    cases.push(by_range());
    cases.push(by_few_keys());
    cases
}

/// Every row with every other, and a condition of four columns.
fn by_condition() -> MakeCase {
    const EACH: u64 = 20_000;
    Box::new(|context: &Context| {
        let device = context.device.clone();
        let rows = EACH.min(context.rows_or(EACH));
        let inputs = [long(0, 1_000_000), long(0, 1000)];
        let build = batch(&device, rows, &inputs)?;
        let others = [long(0, 1_000_000), long(0, 1000)];
        let probe = batch(&device, rows, &others)?;
        let (a, b) = (Expr::column(2), Expr::column(0));
        let apart = Expr::column(3).binary(Op::Sub, Expr::column(1));
        let far = apart.binary(Op::Gt, Expr::Literal(Literal::Int64(900)));
        let condition = a.binary(Op::Lt, b).binary(Op::And, far);
        Ok(Case {
            name: format!("join conditional {EACH}x{EACH}"),
            run: Box::new(move || {
                let join = Join {
                    kind: Kind::Inner,
                    keys: Vec::new(),
                    condition: Some(condition.clone()),
                    outputs: Vec::new(),
                };
                let work = || pairs(&build, &probe, join);
                let (elapsed, out) = timed(&device, work)?;
                Ok(Measurement {
                    elapsed,
                    rows_out: Some(out),
                    bytes: None,
                })
            }),
        })
    })
}

/// A million rows with as many, whose value is in a range that ten of them are in.
fn by_range() -> MakeCase {
    const EACH: u64 = 1_000_000;
    Box::new(|context: &Context| {
        let device = context.device.clone();
        let rows = EACH.min(context.rows_or(EACH));
        let domain = 100_000_000;
        let build = batch(&device, rows, &[long(0, domain)])?;
        let probe = batch(&device, rows, &[long(0, domain)])?;
        let (value, start) = (Expr::column(0), Expr::column(1));
        let length = Expr::Literal(Literal::Int64(10 * domain / rows as i64));
        let end = start.clone().binary(Op::Add, length);
        let condition = value
            .clone()
            .binary(Op::Ge, start)
            .binary(Op::And, value.binary(Op::Lt, end));
        Ok(Case {
            name: format!("join range {EACH}x{EACH}"),
            run: Box::new(move || {
                let join = Join {
                    kind: Kind::Inner,
                    keys: Vec::new(),
                    condition: Some(condition.clone()),
                    outputs: Vec::new(),
                };
                let (elapsed, out) = timed(&device, || pairs(&build, &probe, join))?;
                Ok(Measurement {
                    elapsed,
                    rows_out: Some(out),
                    bytes: None,
                })
            }),
        })
    })
}

/// 100 000 rows with as many, whose keys are two: 50 000 rows a key.
fn by_few_keys() -> MakeCase {
    const EACH: u64 = 100_000;
    Box::new(|context: &Context| {
        let device = context.device.clone();
        let rows = EACH.min(context.rows_or(EACH));
        let build = batch(&device, rows, &[long(0, 2)])?;
        let probe = batch(&device, rows, &[long(0, rows as i64)])?;
        Ok(Case {
            name: format!("join inner i64 dup50000 {EACH}x{EACH}"),
            run: Box::new(move || {
                let join = Join {
                    kind: Kind::Inner,
                    keys: keys(1),
                    condition: None,
                    outputs: Vec::new(),
                };
                let (elapsed, out) = timed(&device, || pairs(&build, &probe, join))?;
                Ok(Measurement {
                    elapsed,
                    rows_out: Some(out),
                    bytes: None,
                })
            }),
        })
    })
}
