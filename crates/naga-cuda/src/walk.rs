//! Walks over statements and expressions: what is called, used, computed and continued.

use naga::{
    AtomicFunction, Block, Expression, Function, GatherMode, Handle, Module, Range, Statement,
};

/// Calls `visit` for every block directly inside `statement`.
fn blocks<'a>(statement: &'a Statement, visit: &mut dyn FnMut(&'a Block)) {
    match statement {
        Statement::Block(block) => visit(block),
        Statement::If { accept, reject, .. } => {
            visit(accept);
            visit(reject);
        }
        Statement::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.body)),
        Statement::Loop {
            body, continuing, ..
        } => {
            visit(body);
            visit(continuing);
        }
        _ => {}
    }
}

/// Calls `visit` for every call statement in `block`, in order.
pub(crate) fn calls(block: &Block, visit: &mut dyn FnMut(Handle<Function>)) {
    for statement in block.iter() {
        if let Statement::Call { function, .. } = statement {
            visit(*function);
        }
        blocks(statement, &mut |inner| calls(inner, visit));
    }
}

/// Whether `block`, the body of a loop, continues that loop.
pub(crate) fn continues(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Loop { .. } => false,
        _ => {
            let mut any = false;
            blocks(statement, &mut |inner| any = any || continues(inner));
            any
        }
    })
}

/// The values that `block` itself computes, those of inner blocks not among them.
pub(crate) fn computed(block: &Block, visit: &mut dyn FnMut(Handle<Expression>)) {
    for statement in block.iter() {
        match *statement {
            Statement::Emit(ref range) => each(range, visit),
            Statement::Call {
                result: Some(result),
                ..
            }
            | Statement::Atomic {
                result: Some(result),
                ..
            }
            | Statement::WorkGroupUniformLoad { result, .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. }
            | Statement::SubgroupGather { result, .. } => visit(result),
            _ => {}
        }
    }
}

fn each(range: &Range<Expression>, visit: &mut dyn FnMut(Handle<Expression>)) {
    range.clone().for_each(visit);
}

/// The expressions that the statements of `block` name, inner blocks included.
pub(crate) fn used(block: &Block, visit: &mut dyn FnMut(Handle<Expression>)) {
    for statement in block.iter() {
        match *statement {
            Statement::Emit(ref range) => each(range, visit),
            Statement::If {
                condition: value, ..
            }
            | Statement::Switch {
                selector: value, ..
            }
            | Statement::Return { value: Some(value) }
            | Statement::WorkGroupUniformLoad { pointer: value, .. }
            | Statement::SubgroupBallot {
                predicate: Some(value),
                ..
            }
            | Statement::SubgroupCollectiveOperation {
                argument: value, ..
            } => visit(value),
            Statement::Loop {
                break_if: Some(condition),
                ..
            } => visit(condition),
            Statement::Store { pointer, value } => {
                visit(pointer);
                visit(value);
            }
            Statement::Call { ref arguments, .. } => {
                arguments.iter().for_each(|argument| visit(*argument));
            }
            Statement::Atomic {
                pointer,
                ref fun,
                value,
                ..
            } => {
                visit(pointer);
                visit(value);
                if let AtomicFunction::Exchange {
                    compare: Some(compare),
                } = *fun
                {
                    visit(compare);
                }
            }
            Statement::SubgroupGather { mode, argument, .. } => {
                visit(argument);
                match mode {
                    GatherMode::Broadcast(lane)
                    | GatherMode::Shuffle(lane)
                    | GatherMode::ShuffleDown(lane)
                    | GatherMode::ShuffleUp(lane)
                    | GatherMode::ShuffleXor(lane) => visit(lane),
                    _ => {}
                }
            }
            _ => {}
        }
        blocks(statement, &mut |inner| used(inner, visit));
    }
}

/// The operands of an expression.
pub(crate) fn operands(expression: &Expression, visit: &mut dyn FnMut(Handle<Expression>)) {
    match *expression {
        Expression::Compose { ref components, .. } => components.iter().for_each(|c| visit(*c)),
        Expression::Access { base: a, index: b }
        | Expression::Binary {
            left: a, right: b, ..
        } => {
            visit(a);
            visit(b);
        }
        Expression::AccessIndex { base: a, .. }
        | Expression::Splat { value: a, .. }
        | Expression::Swizzle { vector: a, .. }
        | Expression::Load { pointer: a }
        | Expression::Unary { expr: a, .. }
        | Expression::Relational { argument: a, .. }
        | Expression::As { expr: a, .. }
        | Expression::ArrayLength(a) => visit(a),
        Expression::Select {
            condition,
            accept,
            reject,
        } => {
            [condition, accept, reject].into_iter().for_each(visit);
        }
        Expression::Math {
            arg,
            arg1,
            arg2,
            arg3,
            ..
        } => {
            visit(arg);
            [arg1, arg2, arg3].into_iter().flatten().for_each(visit);
        }
        _ => {}
    }
}

/// By function, then by global: whether the function, or one that it calls, asks for its length.
pub(crate) struct Lengths {
    functions: Vec<Vec<bool>>,
    globals: usize,
}

impl Lengths {
    pub(crate) fn of(module: &Module) -> Self {
        let mut lengths = Self {
            functions: Vec::new(),
            globals: module.global_variables.len(),
        };
        // Callees come before callers in a valid module.
        for (_, function) in module.functions.iter() {
            let asked = lengths.asked(function);
            lengths.functions.push(asked);
        }
        lengths
    }

    /// What `function` asks for, by global.
    pub(crate) fn asked(&self, function: &Function) -> Vec<bool> {
        let mut asked = vec![false; self.globals];
        for (_, expression) in function.expressions.iter() {
            if let Expression::ArrayLength(mut pointer) = *expression {
                while let Expression::AccessIndex { base, .. } = function.expressions[pointer] {
                    pointer = base;
                }
                if let Expression::GlobalVariable(global) = function.expressions[pointer] {
                    asked[global.index()] = true;
                }
            }
        }
        calls(&function.body, &mut |callee| {
            for (own, of_callee) in asked.iter_mut().zip(&self.functions[callee.index()]) {
                *own |= of_callee;
            }
        });
        asked
    }
}
