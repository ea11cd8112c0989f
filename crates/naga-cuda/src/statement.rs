//! Statements.

use naga::{
    AtomicFunction, Barrier, BinaryOperator, Block, CollectiveOperation, Expression, GatherMode,
    Handle, Literal, Statement, SubgroupOperation, SwitchValue, TypeInner,
};

use crate::{Error, function::Body, writer::unsupported};

/// Turns of the longest loop that is unrolled.
const LONGEST_UNROLLED: u32 = 32;

impl Body<'_, '_> {
    pub(crate) fn block(&mut self, block: &Block) -> Result<(), Error> {
        block
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    /// A nested block between braces that are already on the line.
    fn nested(&mut self, block: &Block) -> Result<(), Error> {
        self.depth += 1;
        self.block(block)?;
        self.depth -= 1;
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match *statement {
            Statement::Emit(ref range) => {
                for handle in range.clone() {
                    if !self.is_pointer(handle) {
                        let text = self.expression(handle)?;
                        self.bake(handle, text);
                    }
                }
            }
            Statement::Block(ref block) => {
                self.line("{");
                self.nested(block)?;
                self.line("}");
            }
            Statement::If {
                condition,
                ref accept,
                ref reject,
            } => {
                let condition = self.text(condition)?;
                self.line(format!("if ({condition}) {{"));
                self.nested(accept)?;
                if !reject.is_empty() {
                    self.line("} else {");
                    self.nested(reject)?;
                }
                self.line("}");
            }
            Statement::Switch {
                selector,
                ref cases,
            } => {
                let selector = self.text(selector)?;
                self.line(format!("switch ({selector}) {{"));
                for case in cases {
                    self.line(match case.value {
                        SwitchValue::I32(i32::MIN) => "case (-2147483647 - 1): {".into(),
                        SwitchValue::I32(v) => format!("case {v}: {{"),
                        SwitchValue::U32(v) => format!("case {v}u: {{"),
                        SwitchValue::Default => "default: {".to_string(),
                    });
                    self.nested(&case.body)?;
                    self.line(if case.fall_through { "}" } else { "} break;" });
                }
                self.line("}");
            }
            Statement::Loop {
                ref body,
                ref continuing,
                break_if,
            } => {
                self.looping(body, continuing, break_if)?;
            }
            Statement::Break => self.line("break;"),
            Statement::Continue => match self.loops.last() {
                Some(Some(label)) => self.line(format!("goto continue_{label};")),
                _ => self.line("continue;"),
            },
            Statement::Return { value } => {
                let text = match value {
                    Some(value) => format!("return {};", self.text(value)?),
                    None => "return;".into(),
                };
                self.line(text);
            }
            Statement::ControlBarrier(barrier) => self.line(match barrier {
                Barrier::SUB_GROUP => "__syncwarp();",
                _ => "__syncthreads();",
            }),
            Statement::MemoryBarrier(_) => self.line("__threadfence_block();"),
            Statement::Store { pointer, value } => {
                let (place, value) = (self.text(pointer)?, self.text(value)?);
                match self.pointee(pointer) {
                    TypeInner::Atomic(_) => self.line(format!("a_store({place}, {value});")),
                    _ => self.line(format!("{place} = {value};")),
                }
            }
            Statement::Call {
                function,
                ref arguments,
                result,
            } => {
                let writer = self.writer;
                let mut list = Vec::new();
                for argument in arguments {
                    list.push(self.text(*argument)?);
                }
                let callee = &writer.module.functions[function];
                list.extend(writer.global_arguments(callee, &writer.info[function]));
                let call = format!("{}({})", writer.function_name(function), list.join(", "));
                match result {
                    Some(result) => self.bake(result, call),
                    None => self.line(format!("{call};")),
                }
            }
            Statement::Atomic {
                pointer,
                fun,
                value,
                result,
            } => {
                self.atomic(pointer, fun, value, result)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                let place = self.text(pointer)?;
                let load = match self.pointee(pointer) {
                    TypeInner::Atomic(_) => format!("a_load({place})"),
                    _ => place,
                };
                self.line("__syncthreads();");
                self.bake(result, load);
                self.line("__syncthreads();");
            }
            Statement::SubgroupBallot { result, predicate } => {
                let mask = self.mask();
                let predicate = match predicate {
                    Some(predicate) => self.text(predicate)?,
                    None => "true".into(),
                };
                self.bake(result, format!("s_ballot({mask}, {predicate})"));
            }
            Statement::SubgroupCollectiveOperation {
                op,
                collective_op,
                argument,
                result,
            } => {
                let mask = self.mask();
                let argument = self.text(argument)?;
                let call = self.collective(op, collective_op, &mask, &argument)?;
                self.bake(result, call);
            }
            Statement::SubgroupGather {
                mode,
                argument,
                result,
            } => {
                let mask = self.mask();
                let argument = self.text(argument)?;
                let call = self.gather(mode, &mask, &argument)?;
                self.bake(result, call);
            }
            ref other => {
                let name = format!("{other:?}");
                let name = name.split([' ', '{', '(']).next().unwrap_or_default();
                return Err(unsupported(format!("statement {name}"), &self.place));
            }
        }
        Ok(())
    }

    fn looping(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let label = (!continuing.is_empty() || break_if.is_some()).then_some(self.labels);
        self.labels += 1;
        if self.is_short(body) {
            // Arrays indexed by the counter stay in registers only so.
            self.line("#pragma unroll");
        }
        self.line("for (;;) {");
        self.depth += 1;
        // `continue` jumps out of the inner braces, so it skips no initialisation.
        self.line("{");
        self.loops.push(label);
        self.nested(body)?;
        self.loops.pop();
        self.line("}");
        if let Some(label) = label {
            self.line(format!("continue_{label}:;"));
            self.loops.push(None);
            self.block(continuing)?;
            self.loops.pop();
            if let Some(condition) = break_if {
                let condition = self.text(condition)?;
                self.line(format!("if ({condition}) break;"));
            }
        }
        self.depth -= 1;
        self.line("}");
        Ok(())
    }

    /// Whether a loop counts a variable up to a constant of at most [`LONGEST_UNROLLED`].
    fn is_short(&self, body: &Block) -> bool {
        let guard = body.iter().find_map(|statement| match statement {
            Statement::If {
                condition, reject, ..
            } => matches!(reject.first(), Some(Statement::Break)).then_some(*condition),
            _ => None,
        });
        let expressions = &self.function.expressions;
        let Some(Expression::Binary {
            op: BinaryOperator::Less,
            left,
            right,
        }) = guard.map(|condition| &expressions[condition])
        else {
            return false;
        };
        let counter = matches!(expressions[*left], Expression::Load { pointer }
            if matches!(expressions[pointer], Expression::LocalVariable(_)));
        let module = self.writer.module;
        let limit = match expressions[*right] {
            Expression::Constant(constant) => {
                &module.global_expressions[module.constants[constant].init]
            }
            ref other => other,
        };
        let short =
            matches!(limit, Expression::Literal(Literal::U32(turns)) if *turns <= LONGEST_UNROLLED);
        counter && short
    }

    fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let (place, value) = (self.text(pointer)?, self.text(value)?);
        let call = match fun {
            AtomicFunction::Add => format!("a_add({place}, {value})"),
            AtomicFunction::Subtract => format!("a_sub({place}, {value})"),
            AtomicFunction::And => format!("a_and({place}, {value})"),
            AtomicFunction::InclusiveOr => format!("a_or({place}, {value})"),
            AtomicFunction::ExclusiveOr => format!("a_xor({place}, {value})"),
            AtomicFunction::Min => format!("a_min({place}, {value})"),
            AtomicFunction::Max => format!("a_max({place}, {value})"),
            AtomicFunction::Exchange { compare: None } => format!("a_exchange({place}, {value})"),
            AtomicFunction::Exchange {
                compare: Some(compare),
            } => {
                let call = format!("a_compare({place}, {}, {value})", self.text(compare)?);
                if let Some(result) = result {
                    // The result's members carry the names of naga's own struct.
                    let ty = self.type_name(result)?;
                    let raw = format!("r{}", result.index());
                    self.line(format!("const auto {raw} = {call};"));
                    self.bake(result, format!("{ty}{{{raw}.old_value, {raw}.exchanged}}"));
                    return Ok(());
                }
                call
            }
        };
        match result {
            Some(result) => self.bake(result, call),
            None => self.line(format!("{call};")),
        }
        Ok(())
    }

    /// The lanes that take part in the next subgroup operation.
    fn mask(&mut self) -> String {
        let uniform = self.flow.is_uniform(self.operation);
        self.operation += 1;
        match uniform {
            true => "FULL".into(),
            false => "__activemask()".into(),
        }
    }

    fn collective(
        &self,
        op: SubgroupOperation,
        collective: CollectiveOperation,
        mask: &str,
        argument: &str,
    ) -> Result<String, Error> {
        let functor = match op {
            SubgroupOperation::Any => return Ok(format!("(__any_sync({mask}, {argument}) != 0)")),
            SubgroupOperation::All => return Ok(format!("(__all_sync({mask}, {argument}) != 0)")),
            SubgroupOperation::Add => "OpAdd",
            SubgroupOperation::Mul => "OpMul",
            SubgroupOperation::Min => "OpMin",
            SubgroupOperation::Max => "OpMax",
            SubgroupOperation::And => "OpAnd",
            SubgroupOperation::Or => "OpOr",
            SubgroupOperation::Xor => "OpXor",
        };
        let name = match collective {
            CollectiveOperation::Reduce => "s_reduce",
            CollectiveOperation::InclusiveScan => "s_inclusive",
            CollectiveOperation::ExclusiveScan => "s_exclusive",
        };
        Ok(format!("{name}({mask}, {argument}, {functor}())"))
    }

    fn gather(&self, mode: GatherMode, mask: &str, argument: &str) -> Result<String, Error> {
        let lane = match mode {
            GatherMode::BroadcastFirst => {
                return Ok(format!("s_broadcast_first({mask}, {argument})"));
            }
            GatherMode::Broadcast(lane) | GatherMode::Shuffle(lane) => self.text(lane)?,
            GatherMode::ShuffleDown(delta) => format!("s_lane() + {}", self.text(delta)?),
            GatherMode::ShuffleUp(delta) => format!("s_lane() - {}", self.text(delta)?),
            GatherMode::ShuffleXor(mask) => format!("s_lane() ^ {}", self.text(mask)?),
            GatherMode::QuadBroadcast(_) | GatherMode::QuadSwap(_) => {
                return Err(unsupported("quad operation", &self.place));
            }
        };
        Ok(format!("s_shuffle({mask}, {argument}, {lane})"))
    }
}
