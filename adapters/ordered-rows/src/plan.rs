//! The tree in which a query finds its rows.

use reqlore_row_store::row::RowQuery;

use crate::keys::index_columns;

/// How a query finds its rows.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    /// The index, numbered from 1 on; 0 for the rows themselves.
    pub(crate) tree: usize,
    /// The columns of its keys.
    pub(crate) columns: Vec<usize>,
    /// Number of first columns that the query compares.
    pub(crate) compared: usize,
    /// The column after these is that of the range.
    pub(crate) has_range: bool,
    /// Its order is that of the query.
    pub(crate) is_ordered: bool,
    /// No row is read that does not meet the conditions.
    pub(crate) is_exact: bool,
}

impl QueryPlan {
    pub(crate) fn of(query: &RowQuery) -> Self {
        let table = query.table;
        let mut best = Self::in_tree(query, 0, (0..table.key_width).collect());
        for (number, index) in (1..).zip(table.indexes) {
            let is_implied = index.condition.is_none_or(|condition| {
                let has_range = query.range.as_ref().is_some_and(|(name, _)| *name == condition);
                query.columns.contains(&condition) || query.not_null == Some(condition) || has_range
            });
            if is_implied {
                let plan = Self::in_tree(query, number, index_columns(table, index));
                let fit = |plan: &Self| (plan.compared, plan.has_range, plan.is_ordered);
                if fit(&plan) > fit(&best) {
                    best = plan;
                }
            }
        }
        let implied = table.indexes.get(best.tree.wrapping_sub(1)).and_then(|one| one.condition);
        best.is_exact = best.compared == query.columns.len()
            && best.has_range == query.range.is_some()
            && (query.not_null.is_none() || query.not_null == implied);
        best
    }

    fn in_tree(query: &RowQuery, tree: usize, columns: Vec<usize>) -> Self {
        let is_compared = |name: &&str| query.columns.contains(name);
        let names = columns.iter().map(|column| query.table.columns[*column].name);
        let compared = names.clone().take_while(is_compared).count();
        let mut rest = names.skip(compared);
        let next = rest.clone().next();
        let has_range = query.range.as_ref().is_some_and(|(column, _)| next == Some(column));
        let mut order = query.order.iter().filter(|name| !is_compared(name));
        let is_ordered = order.all(|name| rest.next() == Some(name));
        Self { tree, columns, compared, has_range, is_ordered, is_exact: false }
    }
}
