//! Three-valued logic, CASE and IN.

use arrow::datatypes::DataType;

use super::{
    Expr, ExprError, Literal, Op,
    body::{Block, Body, Valid, Value},
    bounds::Bound,
    device::DeviceType,
};

/// The longest IN list that is compiled to comparisons.
const LONGEST_LIST: usize = 512;

impl Body<'_> {
    /// A boolean variable: whether `expr` is true, not null.
    ///
    /// Where only truth counts, a null conjunct is a false one, and no validity need be combined.
    pub(crate) fn truth(&mut self, expr: &Expr) -> Result<String, ExprError> {
        if let Expr::Binary { op, left, right } = expr
            && matches!(op, Op::And | Op::Or)
        {
            let left = self.truth(left)?;
            let (block, right) = self.block(|body| body.truth(right))?;
            let (symbol, needed) = match op {
                Op::And => ("&&", left.clone()),
                _ => ("||", format!("!{left}")),
            };
            if !block.raises {
                self.splice(block);
                return Ok(self.bind(format!("{left} {symbol} {right}")));
            }
            let result = self.fresh();
            self.lines.push(format!("var {result} = {left};"));
            self.assign_under(&needed, block, &[(&result, &right)]);
            return Ok(result);
        }
        let value = self.boolean(expr, "a condition")?;
        Ok(match &value.valid {
            Valid::Always => value.code,
            Valid::Never => "false".into(),
            Valid::When(valid) => self.bind(format!("{valid} && {}", value.code)),
        })
    }

    /// `if (condition) { block; variable = value; … }`
    fn assign_under(&mut self, condition: &str, mut block: Block, assignments: &[(&str, &str)]) {
        for (variable, value) in assignments {
            block.lines.push(format!("{variable} = {value};"));
        }
        self.nest(&format!("if ({condition}) {{"), block);
        self.lines.push("}".into());
    }

    /// AND and OR. The right side is evaluated only where it decides, if it can raise.
    pub(crate) fn and_or(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Value, ExprError> {
        let symbol = op.symbol();
        let left = self.boolean(left, symbol)?;
        let (block, mut right) = self.block(|body| body.boolean(right, symbol))?;
        if block.raises {
            // Undecided: unless the left side alone makes it false (AND) or true (OR).
            let decided = match op {
                Op::And => format!("!{}", left.code),
                _ => left.code.clone(),
            };
            let decides = match &left.valid {
                Valid::Never => "false".into(),
                Valid::Always => decided,
                Valid::When(valid) => format!("({valid} && {decided})"),
            };
            let (value, valid) = (self.fresh(), self.fresh());
            self.lines.push(format!("var {value} = {};", op == Op::Or));
            self.lines.push(format!("var {valid} = true;"));
            let right_valid = Body::valid_text(&right.valid);
            let assignments = [
                (value.as_str(), right.code.as_str()),
                (&valid, &right_valid),
            ];
            self.assign_under(&format!("!{decides}"), block, &assignments);
            right = self.value_of(value, &DataType::Boolean, Valid::When(valid))?;
        } else {
            self.splice(block);
        }
        let operator = if op == Op::And { "&&" } else { "||" };
        let code = self.bind(format!("{} {operator} {}", left.code, right.code));
        // Known if both are, or if one is and decides.
        let decides = |value: &Value| {
            let decided = match op {
                Op::And => format!("!{}", value.code),
                _ => value.code.clone(),
            };
            match &value.valid {
                Valid::Always => decided,
                Valid::Never => "false".into(),
                Valid::When(valid) => format!("({valid} && {decided})"),
            }
        };
        let valid = match self.both(&left.valid, &right.valid) {
            Valid::Always => Valid::Always,
            both => {
                let both = Body::valid_text(&both);
                let text = format!("{both} || {} || {}", decides(&left), decides(&right));
                Valid::When(self.bind(text))
            }
        };
        self.value_of(code, &DataType::Boolean, valid)
    }

    /// CASE: the branches as nested ifs, so that only the one taken is evaluated.
    pub(crate) fn case(
        &mut self,
        when_then: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        data_type: &DataType,
    ) -> Result<Value, ExprError> {
        let mut branches = Vec::new();
        let mut conditions = Vec::new();
        let mut depth = 0;
        // Each condition but the first is nested in the `else` of the one before it.
        let (block, ()) = self.block(|body| {
            for (when, then) in when_then {
                let (test, condition) = body.block(|body| body.truth(when))?;
                let (branch, value) = body.block(|body| body.branch(then, data_type))?;
                conditions.push((test, condition));
                branches.push((branch, value));
                depth += 1;
            }
            Ok(())
        })?;
        drop(block);
        let last = self.block(|body| match otherwise {
            Some(expr) => body.branch(expr, data_type),
            None => body.null(data_type),
        })?;
        let device = unify(branches.iter().chain([&last]).map(|(_, value)| value));
        let bound = branches
            .iter()
            .chain([&last])
            .map(|(_, value)| value.bound)
            .max()
            .unwrap_or(Bound::UNKNOWN);
        let nullable = branches
            .iter()
            .chain([&last])
            .any(|(_, value)| value.valid != Valid::Always);

        let (result, valid) = (self.fresh(), self.fresh());
        if device == DeviceType::I128 {
            self.uses.import("package::kernels::int128", "I128");
        }
        self.lines.push(format!("var {result}: {};", device.name()));
        if nullable {
            self.lines.push(format!("var {valid} = true;"));
        }
        let finish =
            |body: &mut Self, (block, value): (Block, Value)| -> Result<Block, ExprError> {
                let (tail, ()) = body.block(|body| {
                    let code = body.widen(&value, device);
                    body.lines.push(format!("{result} = {code};"));
                    if value.valid != Valid::Always {
                        body.lines
                            .push(format!("{valid} = {};", Body::valid_text(&value.valid)));
                    }
                    Ok(())
                })?;
                let mut block = block;
                block.lines.extend(tail.lines);
                Ok(block)
            };
        // From the innermost `else` outwards.
        let mut rest = finish(self, last)?;
        for ((test, condition), branch) in conditions.into_iter().zip(branches).rev() {
            let then = finish(self, branch)?;
            let (outer, ()) = self.block(|body| {
                body.lines.extend(test.lines.iter().cloned());
                body.raises |= test.raises;
                body.nest(&format!("if ({condition}) {{"), then);
                body.nest("} else {", rest);
                body.lines.push("}".into());
                Ok(())
            })?;
            rest = outer;
        }
        self.lines.extend(rest.lines);
        self.raises |= rest.raises;
        let valid = if nullable {
            Valid::When(valid)
        } else {
            Valid::Always
        };
        let mut value = self.value_of(result, data_type, valid)?;
        value.device = device;
        value.bound = bound;
        Ok(value)
    }

    fn branch(&mut self, expr: &Expr, data_type: &DataType) -> Result<Value, ExprError> {
        if let Expr::Literal(Literal::Null(DataType::Null)) = expr {
            return self.null(data_type);
        }
        let value = self.expr(expr)?;
        if value.data_type == *data_type {
            Ok(value)
        } else {
            let what = format!("CASE of {data_type} and {}", value.data_type);
            Err(ExprError::unsupported(what))
        }
    }

    /// IN: equality with each item, over bits for floats as DataFusion does.
    pub(crate) fn in_list(
        &mut self,
        expr: &Expr,
        list: &[Expr],
        negated: bool,
    ) -> Result<Value, ExprError> {
        if list.len() > LONGEST_LIST {
            let what = format!("IN with a list of more than {LONGEST_LIST}");
            return Err(ExprError::unsupported(what));
        }
        let value = self.expr(expr)?;
        let mut found = self.bind("false");
        let mut null = Valid::Always;
        for item in list {
            if let Expr::Literal(Literal::Null(_)) = item {
                null = Valid::Never;
                continue;
            }
            let item = self.expr(item)?;
            let same = match (&value.data_type, &item.data_type) {
                (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) => s1 == s2,
                (left, right) => left == right,
            };
            if !same {
                let what = format!("{} IN a list of {}", value.data_type, item.data_type);
                return Err(ExprError::unsupported(what));
            }
            let mut equal = self.comparison(Op::Eq, &value, &item);
            if item.valid != Valid::Always {
                equal = format!("({} && {equal})", Body::valid_text(&item.valid));
                null = self.both(&null, &item.valid);
            }
            found = self.bind(format!("{found} || {equal}"));
        }
        // Without a match, a null in the list leaves the answer open.
        let known = match null {
            Valid::Always => Valid::Always,
            null => Valid::When(self.bind(format!("{found} || {}", Body::valid_text(&null)))),
        };
        let valid = self.both(&value.valid, &known);
        let code = if negated {
            self.bind(format!("!{found}"))
        } else {
            found
        };
        self.value_of(code, &DataType::Boolean, valid)
    }
}

/// The narrowest representation that holds all of `values`, which are of one arrow type.
fn unify<'a>(values: impl Iterator<Item = &'a Value>) -> DeviceType {
    let mut device = None;
    for value in values {
        match device {
            None => device = Some(value.device),
            Some(d) if d != value.device => device = Some(DeviceType::I128),
            Some(_) => {}
        }
    }
    device.unwrap_or(DeviceType::Bool)
}
