//! Rows compared: sorted or not, unique, merged, ranked; against arrow's comparisons.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::*,
    compute::{SortOptions, concat_batches, take_record_batch},
    datatypes::{Float64Type, UInt32Type},
};
use whitewater::{
    Batch,
    expr::Expr,
    sort::{Rank, SortKey, is_sorted, merge, rank, unique},
};

use crate::{
    device, devices,
    sort::{ORDERS, columns, numbered},
    upload,
};

fn keys(orders: &[SortOptions]) -> Vec<SortKey> {
    let key = |(i, order): (usize, &SortOptions)| SortKey {
        expr: Expr::column(i),
        descending: order.descending,
        nulls_first: order.nulls_first,
    };
    orders.iter().enumerate().map(key).collect()
}

/// How rows of `host` compare by the orders of its first columns.
fn comparison(
    host: &RecordBatch,
    orders: &[SortOptions],
) -> impl Fn(usize, usize) -> Ordering + use<> {
    let by: Vec<_> = orders
        .iter()
        .zip(host.columns())
        .map(|(order, column)| make_comparator(column, column, *order).expect("a comparison"))
        .collect();
    move |a, b| {
        let found = by.iter().map(|compare| compare(a, b));
        found.fold(Ordering::Equal, Ordering::then)
    }
}

/// Batches whose first columns are keys: every type, and pairs of types, strings among them.
fn cases(rows: usize, seed: u64) -> Vec<Vec<ArrayRef>> {
    let all = columns(rows, seed, true);
    let mut cases: Vec<Vec<ArrayRef>> = all.iter().map(|column| vec![column.clone()]).collect();
    let texts = ["", "aaaaaaa", "aaaaaaab", "aaaaaaaaaaaaaab", "b", "ą"];
    let text: ArrayRef =
        Arc::new(StringArray::from_iter((0..rows).map(|i| {
            (i % 7 != 3).then(|| texts[(i * 5 + seed as usize) % texts.len()])
        })));
    let few: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..rows).map(|i| (i % 11 != 5).then_some(i as i32 % 3)),
    ));
    cases.push(vec![few.clone(), text.clone()]);
    cases.push(vec![text, few, all[4].clone()]);
    cases
}

fn sorted_rows(host: &RecordBatch, orders: &[SortOptions]) -> Vec<u32> {
    let compare = comparison(host, orders);
    let mut order: Vec<u32> = (0..host.num_rows() as u32).collect();
    order.sort_by(|a, b| compare(*a as usize, *b as usize));
    order
}

fn download(batch: &Batch) -> RecordBatch {
    batch.download().expect("download")
}

#[test]
fn whether_rows_are_sorted() {
    for case in cases(300, 21) {
        for (i, order) in ORDERS.into_iter().enumerate() {
            let orders = vec![order; case.len()];
            let host = numbered(&case, 0);
            let order = UInt32Array::from(sorted_rows(&host, &orders));
            let sorted = take_record_batch(&host, &order).expect("rows");
            let keys = keys(&orders);
            let is = |host: &RecordBatch| is_sorted(device(), &upload(host), &keys).expect("is it");
            assert!(is(&sorted), "{orders:?} by {}", case[0].data_type());
            let compare = comparison(&host, &orders);
            let expected = (1..300).all(|i| compare(i - 1, i) != Ordering::Greater);
            assert_eq!(is(&host), expected);
            if i == 0 {
                assert!(is(&host.slice(0, 0)) && is(&host.slice(5, 1)));
            }
        }
    }
}

#[test]
fn rows_that_repeat_the_one_ahead() {
    for rows in [0, 1, 33, 400] {
        for case in cases(rows, 22) {
            let orders = vec![ORDERS[0]; case.len()];
            let host = numbered(&case, 0);
            let order = UInt32Array::from(sorted_rows(&host, &orders));
            for host in [take_record_batch(&host, &order).expect("rows"), host] {
                let compare = comparison(&host, &orders);
                let new = (0..rows as u32).filter(|i| {
                    *i == 0 || compare(*i as usize - 1, *i as usize) != Ordering::Equal
                });
                let new = UInt32Array::from_iter_values(new);
                let expected = take_record_batch(&host, &new).expect("rows");
                let result = unique(device(), &upload(&host), &keys(&orders)).expect("rows");
                assert_eq!(download(&result), expected);
            }
        }
    }
}

#[test]
fn sorted_runs_merged() {
    for (case, (a, b)) in cases(260, 23)
        .iter()
        .zip(ORDERS.into_iter().zip(ORDERS.into_iter().rev()).cycle())
    {
        let orders: Vec<SortOptions> = [a, b, a][..case.len()].to_vec();
        let mut first = 0;
        let mut runs = Vec::new();
        for rows in [100, 0, 1, 159] {
            let part: Vec<ArrayRef> = case.iter().map(|c| c.slice(first, rows)).collect();
            let host = numbered(&part, first as u32);
            let order = UInt32Array::from(sorted_rows(&host, &orders));
            runs.push(take_record_batch(&host, &order).expect("rows"));
            first += rows;
        }
        let all = concat_batches(&runs[0].schema(), &runs).expect("rows");
        let order = UInt32Array::from(sorted_rows(&all, &orders));
        let expected = take_record_batch(&all, &order).expect("rows");
        let batches: Vec<Batch> = runs.iter().map(upload).collect();
        let result = merge(device(), &batches, &keys(&orders)).expect("rows");
        assert_eq!(download(&result), expected, "{orders:?}");
    }
}

#[test]
fn ranks_by_every_method() {
    let devices = devices();
    for rows in [0, 1, 33, 300] {
        for case in cases(rows, 24) {
            let orders = vec![ORDERS[1]; case.len()];
            let host = numbered(&case, 0);
            let order = sorted_rows(&host, &orders);
            let compare = comparison(&host, &orders);
            let batch = upload(&host);
            for method in [
                Rank::First,
                Rank::Dense,
                Rank::Min,
                Rank::Max,
                Rank::Average,
            ] {
                let mut expected = vec![0.0; rows];
                let (mut start, mut group) = (0, 0);
                while start < rows {
                    let alike = |place: &u32| {
                        compare(order[start] as usize, *place as usize) == Ordering::Equal
                    };
                    let end = start + order[start..].iter().take_while(|p| alike(p)).count();
                    group += 1;
                    for place in start..end {
                        expected[order[place] as usize] = match method {
                            Rank::First => place as f64 + 1.0,
                            Rank::Dense => f64::from(group),
                            Rank::Min => start as f64 + 1.0,
                            Rank::Max => end as f64,
                            Rank::Average => (start as f64 + 1.0 + end as f64) / 2.0,
                        };
                    }
                    start = end;
                }
                for device in &devices {
                    let ranks = rank(device, &batch, &keys(&orders), method).expect("ranks");
                    let ranks = ranks.download().expect("download");
                    let found: Vec<f64> = match method {
                        Rank::Average => ranks.as_primitive::<Float64Type>().values().to_vec(),
                        _ => {
                            let ranks = ranks.as_primitive::<UInt32Type>().values();
                            ranks.iter().map(|rank| f64::from(*rank)).collect()
                        }
                    };
                    assert_eq!(found, expected, "{method:?} of {}", case[0].data_type());
                }
            }
        }
    }
}
