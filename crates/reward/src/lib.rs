//! Learned rewards: training them, scoring with them, and turning scores into what a policy is paid.
