# bash completion for brig; made by 'brig completion bash'
_brig()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts='' words=''
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'run check profile receipt egress image gc bench completion version help' -- "$cur")
		return
	fi
	case ${COMP_WORDS[1]} in
	run)
		case $prev in
		--tier) mapfile -t COMPREPLY < <(compgen -W 'container ' -- "$cur"); return ;;
		--image) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
		--profile|-p) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--root) mapfile -t COMPREPLY < <(compgen -W 'readonly overlay' -- "$cur"); return ;;
		--root-caps) mapfile -t COMPREPLY < <(compgen -W 'none files' -- "$cur"); return ;;
		--require) return ;;
		--task) return ;;
		--timeout) return ;;
		--memory|-m) return ;;
		--cpus) return ;;
		--pids) return ;;
		--disk) return ;;
		--env|-e) return ;;
		--secret-env) return ;;
		--workdir|-w) return ;;
		--user|-u) return ;;
		--file|-f) return ;;
		--out|-o) return ;;
		--out-patch) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--exclude) return ;;
		--allow) return ;;
		--allow-cidr) return ;;
		--deny) return ;;
		--egress) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--egress-log) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--result-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--receipt) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--tier --image --profile --root --root-caps --require --task --timeout --memory --cpus --pids --disk --env --secret-env --workdir --user --interactive --tty --file --out --out-patch --exclude --gitignore --allow --allow-cidr --deny --egress --egress-log --json --result-file --receipt --quiet --verbose --help'
		words='' ;;
	check)
		case $prev in
		--tier) mapfile -t COMPREPLY < <(compgen -W 'container ' -- "$cur"); return ;;
		esac
		opts='--tier --json --help'
		words='' ;;
	profile)
		case $prev in
		esac
		opts='--json --help'
		words='check' ;;
	receipt)
		case $prev in
		--key) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--json --key --help'
		words='verify key' ;;
	egress)
		case $prev in
		esac
		opts='--json --help'
		words='set show list verify' ;;
	image)
		case $prev in
		esac
		opts='--help'
		words='import pull build erofs list show tag verify remove gc ' ;;
	gc)
		case $prev in
		esac
		opts='--json --help'
		words='' ;;
	bench)
		case $prev in
		--samples|-n) return ;;
		--idle) return ;;
		--only) return ;;
		--rows) return ;;
		--burst) return ;;
		esac
		opts='--samples --idle --only --rows --burst --json --markdown --help'
		words='' ;;
	completion)
		case $prev in
		esac
		opts='--help'
		words='bash zsh fish' ;;
	version)
		case $prev in
		esac
		opts='--json --help'
		words='' ;;
	help)
		case $prev in
		esac
		opts='--help'
		words='run check profile receipt egress image gc bench completion version help' ;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$opts" -- "$cur")
	elif [ -n "$words" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _brig brig
