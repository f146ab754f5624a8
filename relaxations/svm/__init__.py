"""The dual of a soft-margin SVM with some hard constraints: its solvers and its bounds."""
