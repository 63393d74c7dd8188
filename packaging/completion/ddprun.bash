# bash-completion reads this when ddprun is completed first.
eval "$("${1:-ddprun}" --print-completion bash)"
