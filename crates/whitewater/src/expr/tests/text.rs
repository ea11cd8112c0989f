//! The shape of generated modules, and what is refused.

use arrow::datatypes::{DataType, Field, Schema};

use whitewater_gpu::{Library, Shader};

use crate::expr::{
    ArithmeticError, Binding, ColumnLayout, Expr, ExprError, INTRINSICS, Literal, Op, Part,
    Pipeline, compile,
};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("discount", DataType::Decimal128(15, 2), true),
        Field::new("count", DataType::Int64, true),
    ])
}

/// price * (1 - discount)
fn net() -> Expr {
    let one = Expr::Literal(Literal::Decimal128(1, 20, 0));
    Expr::column(1).binary(Op::Mul, one.binary(Op::Sub, Expr::column(2)))
}

fn generate(predicate: Option<Expr>, value: Expr, layout: ColumnLayout) -> crate::expr::Generated {
    let spec = Pipeline {
        predicate,
        values: vec![("value0".into(), value)],
        narrow: true,
        paired: None,
    };
    compile(&spec, &schema(), &[layout; 4]).unwrap()
}

#[test]
fn only_used_buffers_are_bound() {
    let layout = ColumnLayout {
        nullable: false,
        ..ColumnLayout::default()
    };
    let generated = generate(None, Expr::column(3), layout);
    assert_eq!(
        generated.bindings,
        [Binding {
            column: 3,
            part: Part::Data
        }]
    );
    assert!(!generated.values[0].nullable && !generated.raises);
    assert!(
        generated
            .text
            .contains("const VALUE0_NULLABLE: bool = false;")
    );
    assert!(generated.text.contains("return true;"));
    // A string column has a validity and nothing else here.
    let generated = generate(
        Some(Expr::IsNull(Box::new(Expr::column(0)))),
        Expr::column(3),
        ColumnLayout::default(),
    );
    let bound: Vec<(usize, Part)> = generated
        .bindings
        .iter()
        .map(|b| (b.column, b.part))
        .collect();
    assert_eq!(
        bound,
        [(0, Part::Validity), (3, Part::Data), (3, Part::Validity)]
    );
}

#[test]
fn bounds_keep_decimals_in_64_bits() {
    let layout = ColumnLayout {
        nullable: false,
        packed: true,
        ..ColumnLayout::default()
    };
    let bounded = ColumnLayout {
        bits: Some(27),
        ..layout
    };
    let generated = generate(None, net(), bounded);
    assert!(
        !generated.raises && !generated.text.contains("int128"),
        "{}",
        generated.text
    );
    let generated = generate(None, net(), layout.within_precision(15));
    assert!(
        !generated.raises && generated.text.contains("mul_wide_i64"),
        "{}",
        generated.text
    );
    let generated = generate(None, net(), ColumnLayout::default());
    assert!(
        generated.raises && generated.text.contains("i128_mul_checked"),
        "{}",
        generated.text
    );
}

#[test]
fn types_are_arrows() {
    let schema = schema();
    let check = |expr: Expr| expr.check(&schema);
    assert_eq!(check(net()), Ok(DataType::Decimal128(38, 4)));
    let quotient = Expr::column(1).binary(Op::Div, Expr::column(2));
    assert_eq!(check(quotient), Ok(DataType::Decimal128(21, 6)));
    assert_eq!(
        check(Expr::column(3).cast(DataType::Float64)),
        Ok(DataType::Float64)
    );
    for refused in [
        Expr::column(0),
        Expr::column(3).cast(DataType::Utf8),
        Expr::column(1).binary(Op::Add, Expr::column(3)),
        Expr::column(3).binary(Op::And, Expr::column(3)),
        Expr::Not(Box::new(Expr::column(3))),
    ] {
        let result = check(refused.clone());
        assert!(
            matches!(result, Err(ExprError::Unsupported { .. })),
            "{refused:?}: {result:?}"
        );
    }
    assert!(matches!(
        check(Expr::column(9)),
        Err(ExprError::Invalid { .. })
    ));
}

#[test]
fn error_words_name_the_first_error() {
    assert_eq!(ArithmeticError::from_word(0), None);
    assert_eq!(
        ArithmeticError::from_word(0b110),
        Some(ArithmeticError::Overflow)
    );
    let message = ArithmeticError::DivideByZero.to_string();
    assert_eq!(message, "Arrow error: Divide by zero error");
}

/// A kernel that calls every intrinsic, and raises.
const CALLS: &str = "
import package::kernels::bits::extend_i32;
import package::kernels::errors::raise;
import package::kernels::float::{add_f32, div_f32, div_f64, mul_f32, mul_f64, narrow_f64, rem_f32, rem_f64, \
sub_f32, sub_f64, widen_f32};
import package::kernels::int128::{I128, i128_div, i128_mul};
@group(0) @binding(1) var<storage, read_write> words: array<I128>;
@group(0) @binding(2) var<storage, read_write> doubles: array<f64>;
@compute @workgroup_size(1) fn main() {
  words[0] = i128_div(i128_mul(words[1], words[2]), words[3]);
  words[0].lo = bitcast<u64>(extend_i32(3i));
  let x = narrow_f64(mul_f64(div_f64(doubles[0], doubles[1]), sub_f64(doubles[2], rem_f64(doubles[0], doubles[1]))));
  doubles[0] = widen_f32(add_f32(div_f32(x, x), rem_f32(sub_f32(x, x), mul_f32(x, x))));
  raise(1u);
}";

#[test]
fn intrinsics_name_linked_functions() {
    static LIBRARY: Library = Library {
        modules: &[
            ("package::calls", CALLS),
            (
                "package::kernels::bits",
                include_str!("../../kernels/bits.wesl"),
            ),
            (
                "package::kernels::errors",
                include_str!("../../kernels/errors.wesl"),
            ),
            (
                "package::kernels::float",
                include_str!("../../kernels/float.wesl"),
            ),
            (
                "package::kernels::int128",
                include_str!("../../kernels/int128.wesl"),
            ),
        ],
        intrinsics: &[INTRINSICS],
    };
    let linked = Shader::new(&LIBRARY, "package::calls").link().unwrap();
    for (name, _) in INTRINSICS {
        assert!(
            linked.source().contains(&format!("fn {name}(")),
            "{name} in {}",
            linked.source()
        );
    }
    let cuda = linked.cuda().unwrap().source;
    for body in ["__umul64hi", "fmod(", "fmodf(", "__clzll"] {
        assert!(cuda.contains(body), "{body} in {cuda}");
    }
}
