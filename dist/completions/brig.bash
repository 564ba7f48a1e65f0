# bash completion for brig; made by 'brig completion bash'
_brig()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts='' words=''
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'run check profile receipt egress image gc bench completion version help create ps exec cp logs kill pause resume timeout port top key' -- "$cur")
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
		--sudo) mapfile -t COMPREPLY < <(compgen -W 'yes no' -- "$cur"); return ;;
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
		opts='--tier --image --profile --root --root-caps --sudo --require --task --timeout --memory --cpus --pids --disk --env --secret-env --workdir --user --interactive --tty --file --out --out-patch --exclude --gitignore --allow --allow-cidr --deny --egress --egress-log --json --result-file --receipt --quiet --verbose --help'
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
		words='run check profile receipt egress image gc bench completion version help create ps exec cp logs kill pause resume timeout port top key' ;;
	create)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--timeout|-t) return ;;
		--env|-e) return ;;
		--metadata|-m) return ;;
		--on-timeout) mapfile -t COMPREPLY < <(compgen -W 'kill pause' -- "$cur"); return ;;
		--allow) return ;;
		--deny) return ;;
		esac
		opts='--url --key-file --ca --plain --timeout --env --metadata --on-timeout --allow --deny --no-network --private --json --help'
		words='' ;;
	ps)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--filter|-f) return ;;
		--state) mapfile -t COMPREPLY < <(compgen -W 'running paused' -- "$cur"); return ;;
		--template) return ;;
		esac
		opts='--url --key-file --ca --plain --filter --state --template --quiet --watch --all --json --help'
		words='' ;;
	exec)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--env|-e) return ;;
		--cwd|-w) return ;;
		--timeout) return ;;
		--user|-u) return ;;
		esac
		opts='--url --key-file --ca --plain --interactive --tty --env --cwd --timeout --user --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	cp)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--user|-u) return ;;
		--max-size) return ;;
		esac
		opts='--url --key-file --ca --plain --user --quiet --max-size --help'
		words='' ;;
	logs)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--url --key-file --ca --plain --follow --json --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	kill)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--url --key-file --ca --plain --all --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	pause)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--url --key-file --ca --plain --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	resume)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--timeout|-t) return ;;
		esac
		opts='--url --key-file --ca --plain --timeout --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	timeout)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--url --key-file --ca --plain --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	port)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--forward) return ;;
		esac
		opts='--url --key-file --ca --plain --forward --json --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	top)
		case $prev in
		--url) return ;;
		--key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--ca) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		esac
		opts='--url --key-file --ca --plain --once --json --help'
		[[ $cur == -* ]] || words=$(brig ps --quiet 2>/dev/null) ;;
	key)
		case $prev in
		--config) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--state) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
		--tenant) return ;;
		--name) return ;;
		--scopes) return ;;
		--expires) return ;;
		esac
		opts='--config --state --tenant --name --scopes --expires --json --help'
		words='create list revoke' ;;
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
