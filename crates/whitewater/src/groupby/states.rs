//! The text of the grouped flavour of `package::accumulators`: how one row updates a group's state
//! in workgroup memory or in the global table, and how the one is flushed into the other.

use std::fmt::{Result, Write};

use crate::aggregate::accumulators::{Accumulators, Gathers, wide};

const IMPORTS: &str = "\
import package::kernels::int128::{I128, i128_from_i64};
import package::kernels::exact::{exponent_of, is_finite, special_flags, to_fixed, WINDOW};
import package::kernels::order::{order_bool, order_u32, order_u64, order_i32, order_i64, order_f32, order_f64};
import package::groupby::table::{flag_outside, table_add, table_add_wide, table_max, table_or, window_base};
import package::spec::{EXTREMES, LIMBS, REPLICAS, WINDOWS, WORDS};
";

const SAMPLE_IMPORT: &str = "import package::groupby::sample::sample_float;\n";

const LOCAL_IMPORTS: &str = "\
import package::groupby::local::{local_add, local_add_long, local_add_wide, local_max, local_sum, local_sum_wide, local_top};
";

/// Writes the functions `inputs` must precede.
pub(crate) fn write(plan: &Accumulators, text: &mut String) -> Result {
    text.insert_str(0, IMPORTS);
    text.insert_str(0, LOCAL_IMPORTS);
    text.insert_str(0, SAMPLE_IMPORT);
    special(plan, text)?;
    sample(plan, text)?;
    update(plan, text, Level::Table)?;
    update(plan, text, Level::Local)?;
    flush(plan, text)
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Table,
    Local,
}

/// `special`: whether a row has a float that no window holds, and must go to the table itself.
fn special(plan: &Accumulators, text: &mut String) -> Result {
    let checks: Vec<String> = plan
        .floats()
        .iter()
        .map(|arg| format!("(in.ok{arg} && !is_finite(in.value{arg}))"))
        .collect();
    let any = if checks.is_empty() {
        "false".into()
    } else {
        checks.join(" || ")
    };
    writeln!(text, "fn special(in: Inputs) -> bool {{ return {any}; }}")
}

/// `sample_floats`: tells the exponents of a row's floats that are to be summed.
fn sample(plan: &Accumulators, text: &mut String) -> Result {
    writeln!(text, "fn sample_floats(in: Inputs) {{")?;
    for (index, arg) in plan.floats().iter().enumerate() {
        writeln!(
            text,
            "    if (in.ok{arg}) {{ sample_float({index}u, in.value{arg}); }}"
        )?;
    }
    writeln!(text, "}}")
}

/// `table_accumulate` or `local_accumulate`.
fn update(plan: &Accumulators, text: &mut String, level: Level) -> Result {
    match level {
        Level::Table => writeln!(
            text,
            "fn table_accumulate(slot: u32, in: Inputs) {{\n    let at = slot * WORDS;"
        )?,
        Level::Local => writeln!(
            text,
            "fn local_accumulate(slot: u32, replica: u32, in: Inputs) {{\n    \
             let at = slot * LIMBS * REPLICAS + replica;\n    \
             let top = slot * EXTREMES * REPLICAS + replica;"
        )?,
    }
    let mut float = 0;
    for a in &plan.list {
        let (word, limb) = (a.word, a.limb);
        let table = format!("at + {word}u");
        let local = format!("at + {limb}u * REPLICAS");
        let body = match (a.gathers, level) {
            // Not of groups.
            (Gathers::Held { .. }, _) => continue,
            (Gathers::Count { .. }, Level::Table) => format!("table_add({table}, 1lu);"),
            (Gathers::Count { .. }, Level::Local) => format!("local_add({local}, 1u);"),
            (Gathers::Integer { arg }, Level::Table) => {
                format!("table_add({table}, bitcast<u64>(in.value{arg}));")
            }
            (Gathers::Integer { arg }, Level::Local) => {
                format!("local_add_long({local}, bitcast<u64>(in.value{arg}));")
            }
            (Gathers::Decimal { arg, narrow }, Level::Table) => {
                format!("table_add_wide({table}, {});", wide(arg, narrow))
            }
            (Gathers::Decimal { arg, narrow }, Level::Local) => {
                format!("local_add_wide({local}, {});", wide(arg, narrow))
            }
            (Gathers::Extreme { arg, minimum, kind }, _) => {
                let flip = if minimum { "~" } else { "" };
                let value = format!("{flip}order_{}(in.value{arg})", kind.name());
                match level {
                    Level::Table => format!("table_max({table}, {value});"),
                    Level::Local => format!("local_max(top + {limb}u * REPLICAS, {value});"),
                }
            }
            (Gathers::Float { arg }, level) => {
                let add = match level {
                    Level::Table => {
                        format!("table_add_wide({table} + 2u * u32(window), to_fixed(v, bottom))")
                    }
                    Level::Local => format!(
                        "local_add_wide({local} + 4u * REPLICAS * u32(window), to_fixed(v, bottom))"
                    ),
                };
                let specials = match level {
                    Level::Table => format!(
                        "if (!is_finite(v)) {{ table_or({table} + 2u * WINDOWS, special_flags(v)); }} else "
                    ),
                    Level::Local => String::new(),
                };
                let base = float;
                float += 1;
                // With one window, as nearly always, there is none to find.
                let (window, outside, bottom) = match plan.windows {
                    1 => ("0", "u32(above) >= u32(WINDOW)", "base"),
                    _ => (
                        "above / WINDOW",
                        "above < 0 || window >= i32(WINDOWS)",
                        "base + window * WINDOW",
                    ),
                };
                format!(
                    "let v = in.value{arg};\n        {specials}if (v != 0.0lf) {{\n            \
                     let base = window_base({base}u);\n            \
                     let above = exponent_of(v) - base;\n            \
                     let window = {window};\n            \
                     if ({outside}) {{ flag_outside(); }} else {{\n                \
                     let bottom = {bottom};\n                {add};\n            }}\n        }}"
                )
            }
        };
        let condition = plan.condition(a.gathers).unwrap_or_else(|| "true".into());
        writeln!(text, "    if ({condition}) {{\n        {body}\n    }}")?;
    }
    writeln!(text, "}}")
}

/// `flush`: adds a workgroup's state of a group to the table's.
fn flush(plan: &Accumulators, text: &mut String) -> Result {
    writeln!(
        text,
        "fn flush(local: u32, slot: u32) {{\n    let at = slot * WORDS;\n    \
         let origin = local * LIMBS * REPLICAS;\n    let top = local * EXTREMES * REPLICAS;"
    )?;
    for a in &plan.list {
        let (word, limb) = (a.word, a.limb);
        let local = format!("origin + {limb}u * REPLICAS");
        match a.gathers {
            Gathers::Held { .. } => {}
            Gathers::Count { .. } => {
                writeln!(text, "    table_add(at + {word}u, local_sum({local}, 1u));")?;
            }
            Gathers::Integer { .. } => {
                writeln!(text, "    table_add(at + {word}u, local_sum({local}, 2u));")?;
            }
            Gathers::Decimal { .. } => {
                writeln!(
                    text,
                    "    table_add_wide(at + {word}u, local_sum_wide({local}));"
                )?;
            }
            Gathers::Float { .. } => writeln!(
                text,
                "    for (var w = 0u; w < WINDOWS; w++) {{\n        \
                 table_add_wide(at + {word}u + 2u * w, local_sum_wide({local} + 4u * REPLICAS * w));\n    }}"
            )?,
            Gathers::Extreme { .. } => {
                writeln!(
                    text,
                    "    table_max(at + {word}u, local_top(top + {limb}u * REPLICAS));"
                )?;
            }
        }
    }
    writeln!(text, "}}")
}
