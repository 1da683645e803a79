# Draws the rows `fits` of `folder`/stopping.csv as a reliability diagram. Points grow with the number of trials.

set datafile separator ','
set datafile missing NaN
set linetype 1 lc rgb '#d55e00'
set linetype 2 lc rgb '#0072b2'
set linetype 3 lc rgb '#009e73'
set linetype 4 lc rgb '#cc79a7'
set linetype 5 lc rgb '#e69f00'
set linetype 6 lc rgb '#56b4e9'
set linetype 7 lc rgb '#000000'
set grid
set size square
set xrange [0:1]
set yrange [0:1]
set key outside below center Left reverse maxcols 2
row(group) = sprintf("'%s/stopping.csv' using (strcol(1) eq '%s' && strcol(2) eq 'fits' && $4 - $3 < 0.5 ? $7 : NaN)", folder, group).\
  ':8:(0.3 + 0.35 * log10($5)) with linespoints ps variable lw 2'
stated = 'stated probability that a chosen trial fits in memory'
ran = 'share of these trials that fit'
reference = ", x lc rgb '#777777' dt 2 notitle"
count = words(groups)
columns = 3
rows = ceil(count / real(columns))
height = count > 5 ? 60 + 270 * rows : 720
width = count > 5 ? 1080 : 600
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg noenhanced size width,height dynamic font 'DejaVu Sans,13' }
  else { set terminal pngcairo noenhanced size width,height font 'DejaVu Sans,10' }
  set output folder.'/fits.'.format
  if (count > 5) {
    # Lines on each other cannot be told apart: a panel each.
    unset key
    set tics 0.5
    set multiplot layout rows,columns title ran.' against '.stated
    do for [i=1:count] {
      set title word(groups, i) font ',9' offset 0,-0.5
      eval 'plot '.row(word(groups, i)).' lt 1 pt 5'.reference
    }
    unset multiplot
  } else {
    set xlabel stated
    set ylabel ran
    command = 'plot '
    do for [i=1:count] {
      command = command.row(word(groups, i)).sprintf(" lt %d dt %d pt %d title '%s', ", i, i, 4 + i, word(groups, i))
    }
    eval command[1:strlen(command) - 2].reference
  }
  unset output
}
